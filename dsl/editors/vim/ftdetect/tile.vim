" Made by dsl/editors/make_syntax from the tables of the compiler.
autocmd BufRead,BufNewFile *.tile setfiletype tile
