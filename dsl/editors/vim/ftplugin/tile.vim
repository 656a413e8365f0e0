" Made by dsl/editors/make_syntax from the tables of the compiler.
setlocal commentstring=//\ %s comments=s1:/*,mb:*,ex:*/,:// noexpandtab shiftwidth=8
