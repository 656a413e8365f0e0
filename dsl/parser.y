/* parser.y - the grammar of .tile files.  Actions build nodes and nothing else:
 * what needs a type or a symbol is checked later, so one error hides no other. */
%require "3.8"
%define api.pure full
%define api.prefix {tile_yy}
%define api.token.prefix {TOK_}
%define api.location.type {Loc}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%param { struct Parse *p }
%initial-action { @$ = (Loc){ p->index, 0, 0 }; }

%code requires {
#include "dsl/parse.h"
}

%code top {
#define YYMAXDEPTH 4000
#define YYLLOC_DEFAULT(cur, rhs, n) \
	do { \
		(cur) = YYRHSLOC(rhs, (n) ? 1 : 0); \
		(cur).begin = (n) ? (cur).begin : (cur).end; \
		(cur).end = YYRHSLOC(rhs, n).end; \
	} while (0)
}

%union {
	const char *name;
	int64_t i;
	double f;
	int op;
	DType dtype;
	TypeRef type;
	Expr *expr;
	ExprList exprs;
	Sub *sub;
	SubList subs;
	Stmt *stmt;
	StmtList stmts;
	Decl *decl;
	DeclList decls;
	Extent *extent;
	ExtentList extents;
	Bind *bind;
	BindList binds;
	NameList names;
	NameRef *source;
	CallSuffix suffix;
	ForHead for_head;
	Role role;
}

%code {
#include <string.h>
#undef yylex
#define yylex parse_next_token
static void tile_yyerror(const Loc *at, Parse *p, const char *text);
static Loc span(Loc a, Loc b) { return (Loc){ a.source, a.begin, b.end }; }
#define STOP_WHEN_HOPELESS do { yyerrok; if (parse_gives_up(p)) YYABORT; } while (0)
}

/* Words that are no names anywhere. */
%token IMPORT "'import'" PARAM "'param'" CONST "'const'" DIM "'dim'" STATIC_ASSERT "'static_assert'"
%token FN "'fn'" STRUCT "'struct'" KERNEL "'kernel'" ROLE "'role'"
%token SHARED "'shared'" FRAG "'frag'" MBARRIER "'mbarrier'" BARRIER "'barrier'" RING "'ring'"
%token IF "'if'" ELSE "'else'" FOR "'for'" WHILE "'while'" RETURN "'return'"
%token BREAK "'break'" CONTINUE "'continue'"
%token ONCE "'once'" ASYNC "'async'" PARALLEL "'parallel'" UNROLL "'unroll'"
%token TRUE "'true'" FALSE "'false'"

/* Words that mean something in one place and are names elsewhere. */
%token <name> GRID "'grid'" THREADS "'threads'" OCCUPANCY "'occupancy'" CLUSTER "'cluster'"
%token <name> IN "'in'" OUT "'out'" INOUT "'inout'" OPTIONAL "'optional'" STRIDES "'strides'"
%token <name> WARP "'warp'" WARPGROUP "'warpgroup'" SETMAXNREG "'setmaxnreg'"
%token <name> LAYOUT "'layout'" AT "'at'" FROM "'from'" COUNT "'count'" BATCH "'batch'"
%token <name> LIMIT "'limit'" WITHIN "'within'" TYPE "'type'"

%token <dtype> DTYPE "a type"
%token <name> NAME "a name" STRING "a string"
%token <i> INT "a number"
%token <f> REAL "a real number"
%token <op> ASSIGN "an assignment"
%token PLUS_COLON "'+:'" DOTDOT "'..'" INC "'++'" DEC "'--'"
%token LAND "'&&'" LOR "'||'" EQ "'=='" NE "'!='" LE "'<='" GE "'>='" SHL "'<<'" SHR "'>>'"
%token END 0 "the end of the file"

%precedence THEN
%precedence ELSE
/* `parallel (...) batch(8)`: an option, not a call of a function named batch. */
%precedence WORD_AS_NAME
%precedence '('

/* `IO limit;`: a variable.  What limit(e) belongs to ends with ')'. */
%precedence NAME
%precedence LIMIT WITHIN

%right '?' ':'
%left LOR
%left LAND
%left '|'
%left '^'
%left '&'
%left EQ NE
%left '<' '>' LE GE
%left SHL SHR
%left '+' '-'
%left '*' '/' '%' '@'
%precedence UNARY

%type <name> name string
%type <type> type
%type <names> names name_list sources
%type <source> source
%type <decl> kernel_head param param_decl tensor_dir direction tile scalar constant type_param mbarrier barrier
%type <decls> decl params param_list tiles scalars constants type_params constant_decl mbarriers barriers local_decl
%type <extent> extent
%type <extents> extents extents_opt
%type <exprs> exprs args_opt args strides_opt
%type <decls> members member_group
%type <expr> expr expr_opt exists_opt cond postfix atom primary initializer field
%type <exprs> fields
%type <sub> sub
%type <subs> subs
%type <stmt> block stmt simple assign
%type <stmt> for_init for_step
%type <stmts> stmts
%type <for_head> for_head
%type <bind> bind
%type <binds> binds binds_opt instances
%type <expr> options
%type <suffix> suffixes
%type <role> warps range

%%

file
  : decls
  ;

decls
  : %empty
  | decls decl                  { add_decls(p, $2); }
  ;

decl
  : IMPORT string ';'           { $$ = (DeclList){ 0 }; LIST_APPEND($$, build_decl(p, DE_IMPORT, $2, @2)); }
  | PARAM DTYPE constants ';'   { set_kind($3, DE_PARAM, (TypeRef){ .dtype = $2 }, false); $$ = $3; }
  | PARAM TYPE type_params ';'  { $$ = $3; }
  | constant_decl ';'           { $$ = $1; }
  | DIM names ';'               {
	$$ = (DeclList){ 0 };
	for (const NameRef *n = $2.head; n; n = n->next)
		LIST_APPEND($$, build_value(p, DE_DIM, DT_I32, n->name, NULL, n->loc));
    }
  | STATIC_ASSERT '(' expr ',' string ')' ';' {
	Decl *d = build_value(p, DE_STATIC_ASSERT, DT_NONE, NULL, $3, @3);

	d->text = $5;
	$$ = (DeclList){ d, d };
    }
  | FN type name '(' params ')' block {
	Decl *d = build_decl(p, DE_FN, $3, @3);

	set_kind((DeclList){ d, d }, DE_FN, $2, false);
	d->params = $5.head;
	d->body = $7;
	check_function(p, d);
	$$ = (DeclList){ d, d };
    }
  | FN name '(' params ')' block {
	Decl *d = build_decl(p, DE_FN, $2, @2);

	d->params = $4.head;
	d->body = $6;
	check_function(p, d);
	$$ = (DeclList){ d, d };
    }
  | STRUCT name '{' members '}' {
	Decl *d = build_decl(p, DE_STRUCT, $2, @2);

	d->params = $4.head;
	check_struct(p, d);
	$$ = (DeclList){ d, d };
    }
  | STRUCT name '{' members error '}'
                                { $$ = (DeclList){ 0 }; STOP_WHEN_HOPELESS; }
  | kernel_head block           { $1->body = $2; check_kernel(p, $1); $$ = (DeclList){ $1, $1 }; }
  | error ';'                   { $$ = (DeclList){ 0 }; STOP_WHEN_HOPELESS; }
  | error block                 { $$ = (DeclList){ 0 }; STOP_WHEN_HOPELESS; }
  | error '}'                   { $$ = (DeclList){ 0 }; STOP_WHEN_HOPELESS; }
  ;

kernel_head
  : KERNEL name '(' params ')'  { $$ = build_decl(p, DE_KERNEL, $2, @2); $$->params = $4.head; }
  | kernel_head GRID '(' exprs ')'
                                { set_once(p, &$1->grid, $4.head, "grid", @2); }
  | kernel_head THREADS '(' expr ')'
                                { set_once(p, &$1->threads, $4, "threads", @2); }
  | kernel_head OCCUPANCY '(' expr ')'
                                { set_once(p, &$1->occupancy, $4, "occupancy", @2); }
  | kernel_head CLUSTER '(' exprs ')'
                                { set_once(p, &$1->cluster, $4.head, "cluster", @2); }
  ;

constant_decl
  : CONST type constants        { set_kind($3, DE_CONST, $2, false); $$ = $3; }
  ;

constants
  : constant                    { $$ = (DeclList){ $1, $1 }; }
  | constants ',' constant      { $$ = $1; LIST_APPEND($$, $3); }
  ;

constant
  : name '=' expr               { $$ = build_value(p, DE_CONST, DT_NONE, $1, $3, @1); }
  ;

type_params
  : type_param                  { $$ = (DeclList){ $1, $1 }; }
  | type_params ',' type_param  { $$ = $1; LIST_APPEND($$, $3); }
  ;

type_param
  : name '=' DTYPE              { $$ = build_value(p, DE_TYPE, $3, $1, NULL, @1); }
  ;

params
  : %empty                      { $$ = (DeclList){ 0 }; }
  | param_list
  ;

param_list
  : param                       { $$ = (DeclList){ $1, $1 }; }
  | param_list ',' param        { $$ = $1; LIST_APPEND($$, $3); }
  ;

param
  : param_decl exists_opt       { $$ = $1; $$->exists = $2; }
  ;

/* As parameters of a function. */
members
  : %empty                      { $$ = (DeclList){ 0 }; }
  | members member_group ';'    { $$ = $1; add_members(&$$, $2); }
  ;

member_group
  : tensor_dir type tiles       { build_tensors(p, $1, $2, $3); $$ = $3; }
  | DTYPE tiles                 { build_scalar_params(p, (TypeRef){ .dtype = $1, .loc = @1 }, $2); $$ = $2; }
  | NAME tiles                  { build_scalar_params(p, (TypeRef){ .name = $1, .loc = @1 }, $2); $$ = $2; }
  | FRAG type tiles             { set_kind($3, DE_FRAG, $2, false); $$ = $3; }
  | WARP FRAG type tiles        { set_kind($4, DE_FRAG, $3, true); $$ = $4; }
  | SHARED type tiles           { set_kind($3, DE_SHARED, $2, false); $$ = $3; }
  | MBARRIER tiles              { build_barrier_members(p, DE_MBARRIER, $2); $$ = $2; }
  | BARRIER tiles               { build_barrier_members(p, DE_BARRIER, $2); $$ = $2; }
  ;

/* A declaration that is there under a compile-time condition. */
exists_opt
  : %empty                      { $$ = NULL; }
  | IF '(' expr ')'             { $$ = $3; }
  ;

param_decl
  : tensor_dir type tile strides_opt
                                { $$ = build_tensor(p, $1, $2, $3, $4); }
  | DTYPE tile                  { $$ = build_scalar_param(p, (TypeRef){ .dtype = $1, .loc = @1 }, $2); }
  | NAME tile                   { $$ = build_scalar_param(p, (TypeRef){ .name = $1, .loc = @1 }, $2); }
  | FRAG type tile             { set_kind((DeclList){ $3, $3 }, DE_FRAG, $2, false); $$ = $3; }
  | WARP FRAG type tile              { set_kind((DeclList){ $4, $4 }, DE_FRAG, $3, true); $$ = $4; }
  | SHARED type tile             { set_kind((DeclList){ $3, $3 }, DE_SHARED, $2, false); $$ = $3; }
  | MBARRIER name extents_opt   { $$ = build_decl(p, DE_MBARRIER, $2, @2); $$->extents = $3.head; }
  | BARRIER name extents_opt    { $$ = build_decl(p, DE_BARRIER, $2, @2); $$->extents = $3.head; }
  ;

type
  : DTYPE                       { $$ = (TypeRef){ .dtype = $1, .loc = @1 }; }
  | name                        { $$ = (TypeRef){ .name = $1, .loc = @1 }; }
  ;

tensor_dir
  : direction
  | OPTIONAL direction          { $$ = $2; $$->optional = true; }
  ;

direction
  : IN                          { $$ = build_decl(p, DE_TENSOR, NULL, @1); $$->dir = DIR_IN; }
  | OUT                         { $$ = build_decl(p, DE_TENSOR, NULL, @1); $$->dir = DIR_OUT; }
  | INOUT                       { $$ = build_decl(p, DE_TENSOR, NULL, @1); $$->dir = DIR_INOUT; }
  ;

strides_opt
  : %empty                      { $$ = (ExprList){ 0 }; }
  | STRIDES '(' exprs ')'       { $$ = $3; }
  ;

extents_opt
  : %empty                      { $$ = (ExtentList){ 0 }; }
  | extents
  ;

extents
  : extent                      { $$ = (ExtentList){ $1, $1 }; }
  | extents extent              { $$ = $1; LIST_APPEND($$, $2); }
  ;

extent
  : '[' expr ']'                { $$ = build_extent(p, false, $2, @$); }
  | '[' RING expr ']'           { $$ = build_extent(p, true, $3, @$); }
  ;

local_decl
  : DTYPE scalars               { set_kind($2, DE_SCALAR, (TypeRef){ .dtype = $1 }, false); $$ = $2; }
  | NAME scalars                { set_kind($2, DE_SCALAR, (TypeRef){ .name = $1, .loc = @1 }, false); $$ = $2; }
  | constant_decl
  | SHARED type tiles              { set_kind($3, DE_SHARED, $2, false); $$ = $3; }
  | FRAG type tiles              { set_kind($3, DE_FRAG, $2, false); $$ = $3; }
  | WARP FRAG type tiles              { set_kind($4, DE_FRAG, $3, true); $$ = $4; }
  | MBARRIER mbarriers          { $$ = $2; }
  | BARRIER barriers            { $$ = $2; }
  ;

scalars
  : scalar                      { $$ = (DeclList){ $1, $1 }; }
  | scalars ',' scalar          { $$ = $1; LIST_APPEND($$, $3); }
  ;

scalar
  : name                        { $$ = build_value(p, DE_SCALAR, DT_NONE, $1, NULL, @1); }
  | name '=' initializer        { $$ = build_value(p, DE_SCALAR, DT_NONE, $1, $3, @1); }
  | name extents                {
	$$ = build_value(p, DE_SCALAR, DT_NONE, $1, NULL, @1);
	parse_error(p, @2, "a scalar variable has no extents");
	diag_help(p->diags, "arrays are tiles: write 'frag' (registers) or 'shared' before the type");
    }
  ;

initializer
  : expr
  | '{' fields '}'              { $$ = build_struct(p, $2, @$); }
  | '{' error '}'               { $$ = build_struct(p, (ExprList){ 0 }, @$); STOP_WHEN_HOPELESS; }
  ;

fields
  : field                       { $$ = (ExprList){ 0 }; list_add_expr(&$$, $1); }
  | fields ',' field            { $$ = $1; list_add_expr(&$$, $3); }
  ;

field
  : initializer                 { $$ = build_field(p, NULL, $1, @$); }
  | '.' name '=' initializer    { $$ = build_field(p, $2, $4, @$); }
  ;

tiles
  : tile exists_opt             { $1->exists = $2; $$ = (DeclList){ $1, $1 }; }
  | tiles ',' tile exists_opt   { $3->exists = $4; $$ = $1; LIST_APPEND($$, $3); }
  ;

tile
  : name extents_opt            { $$ = build_tile(p, $1, $2, @1); }
  | tile LAYOUT '(' name ')'    { set_layout(p, $1, $4, (ExprList){ 0 }, @2); }
  | tile LAYOUT '(' name '(' exprs ')' ')'
                                { set_layout(p, $1, $4, $6, @2); }
  | tile AT '(' name ',' expr ')'
                                { set_at(p, $1, $4, @4, $6, @2); }
  ;

mbarriers
  : mbarrier exists_opt         { $1->exists = $2; $$ = (DeclList){ $1, $1 }; }
  | mbarriers ',' mbarrier exists_opt
                                { $3->exists = $4; $$ = $1; LIST_APPEND($$, $3); }
  ;

mbarrier
  : name extents_opt FROM '(' sources ')'
                                { $$ = build_barrier(p, DE_MBARRIER, $1, $2, $5, NULL, @1); }
  | name extents_opt COUNT '(' expr ')'
                                { $$ = build_barrier(p, DE_MBARRIER, $1, $2, (NameList){ 0 }, $5, @1); }
  ;

barriers
  : barrier exists_opt          { $1->exists = $2; $$ = (DeclList){ $1, $1 }; }
  | barriers ',' barrier exists_opt
                                { $3->exists = $4; $$ = $1; LIST_APPEND($$, $3); }
  ;

barrier
  : name extents_opt FROM '(' sources ')'
                                { $$ = build_barrier(p, DE_BARRIER, $1, $2, $5, NULL, @1); }
  | name extents_opt COUNT '(' expr ')'
                                { $$ = build_barrier(p, DE_BARRIER, $1, $2, (NameList){ 0 }, $5, @1); }
  ;

/* Roles, or one instance of a role. */
sources
  : source                      { $$ = (NameList){ 0 }; LIST_APPEND($$, $1); }
  | sources ',' source          { $$ = $1; LIST_APPEND($$, $3); }
  ;

source
  : name                        { $$ = build_name_ref(p, $1, @1); }
  | name '[' expr ']'           { $$ = build_name_ref(p, $1, @1); $$->instance = $3; }
  ;

names
  : name_list
  ;

name_list
  : name                        { $$ = (NameList){ 0 }; LIST_APPEND($$, build_name_ref(p, $1, @1)); }
  | name_list ',' name          { $$ = $1; LIST_APPEND($$, build_name_ref(p, $3, @3)); }
  ;

block
  : '{' stmts '}'               { $$ = build_block(p, $2, @$); }
  | '{' stmts error '}'         { $$ = build_block(p, $2, @$); STOP_WHEN_HOPELESS; }
  ;

stmts
  : %empty                      { $$ = (StmtList){ 0 }; }
  | stmts stmt                  { $$ = $1; if ($2) LIST_APPEND($$, $2); }
  ;

stmt
  : simple ';'
  | local_decl ';'              { $$ = build_decl_stmt(p, $1, @1); }
  | block
  | ';'                         { $$ = build_block(p, (StmtList){ 0 }, @1); }
  | IF cond stmt %prec THEN     { $$ = build_if(p, $2, $3, NULL, span(@1, @2)); }
  | IF cond stmt ELSE stmt      { $$ = build_if(p, $2, $3, build_body(p, $5, @4), span(@1, @2)); }
  | IF '(' error block          { $$ = $4; STOP_WHEN_HOPELESS; }
  | FOR for_head stmt           { $$ = build_for(p, false, $2, $3, span(@1, @2)); }
  | UNROLL FOR for_head stmt    { $$ = build_for(p, true, $3, $4, span(@1, @3)); }
  | FOR '(' error block         { $$ = $4; STOP_WHEN_HOPELESS; }
  | UNROLL FOR '(' error block  { $$ = $5; STOP_WHEN_HOPELESS; }
  | WHILE cond stmt             {
	$$ = build_stmt(p, ST_WHILE, span(@1, @2));
	$$->cond = $2;
	$$->body = build_body(p, $3, @1);
    }
  | WHILE '(' error block       { $$ = $4; STOP_WHEN_HOPELESS; }
  | ONCE stmt                   { $$ = build_stmt(p, ST_ONCE, @1); $$->body = build_body(p, $2, @1); }
  | ASYNC stmt                  { $$ = build_async(p, build_body(p, $2, @1), @1); }
  | PARALLEL binds_opt options stmt
                                { $$ = build_parallel(p, $2, $3, $4, span(@1, @2)); }
  | PARALLEL '(' error block    { $$ = $4; STOP_WHEN_HOPELESS; }
  | ROLE name instances warps block {
	$4.name = $2;
	$4.instances = $3.head;
	$$ = build_role(p, $4, $5, span(@1, @4));
    }
  | ROLE name instances warps SETMAXNREG '(' expr ')' block {
	$4.name = $2;
	$4.instances = $3.head;
	$4.setmaxnreg = $7;
	$$ = build_role(p, $4, $9, span(@1, @8));
    }
  | RETURN ';'                  { $$ = build_stmt(p, ST_RETURN, @1); }
  | RETURN initializer ';'      { $$ = build_stmt(p, ST_RETURN, span(@1, @2)); $$->rhs = $2; }
  | BREAK ';'                   { $$ = build_stmt(p, ST_BREAK, @1); }
  | CONTINUE ';'                { $$ = build_stmt(p, ST_CONTINUE, @1); }
  | STATIC_ASSERT '(' expr ',' string ')' ';'
                                { $$ = build_static_assert(p, $3, $5, @3); }
  | error ';'                   { $$ = NULL; STOP_WHEN_HOPELESS; }
  | error block                 { $$ = $2; STOP_WHEN_HOPELESS; }
  ;

simple
  : assign
  | expr suffixes               { $$ = build_call_stmt(p, $1, $2, @1); }
  ;

assign
  : expr '=' initializer        { $$ = build_assign(p, AS_SET, $1, $3, @$); }
  | expr ASSIGN expr            { $$ = build_assign(p, (AssignOp)$2, $1, $3, @$); }
  | expr INC                    { $$ = build_increment(p, AS_ADD, $1, @$); }
  | expr DEC                    { $$ = build_increment(p, AS_SUB, $1, @$); }
  | INC postfix                 { $$ = build_increment(p, AS_ADD, $2, @$); }
  | DEC postfix                 { $$ = build_increment(p, AS_SUB, $2, @$); }
  ;

suffixes
  : %empty                      { $$ = (CallSuffix){ 0 }; }
  | suffixes LIMIT '(' expr ')' { $$ = $1; set_once(p, &$$.limit, $4, "limit", @2); }
  | suffixes WITHIN '(' expr ')'
                                { $$ = $1; set_once(p, &$$.within, $4, "within", @2); }
  ;

cond
  : '(' expr ')'                { $$ = $2; }
  | '(' error ')'               { $$ = build_expr(p, EX_INT, @$); STOP_WHEN_HOPELESS; }
  ;

for_head
  : '(' for_init ';' expr_opt ';' for_step ')'
                                { $$ = (ForHead){ .init = $2, .cond = $4, .step = $6 }; }
  | '(' error ')'               { $$ = (ForHead){ 0 }; STOP_WHEN_HOPELESS; }
  ;

for_init
  : %empty                      { $$ = NULL; }
  | DTYPE scalars               { set_kind($2, DE_SCALAR, (TypeRef){ .dtype = $1 }, false); $$ = build_decl_stmt(p, $2, @$); }
  | assign
  ;

for_step
  : %empty                      { $$ = NULL; }
  | assign
  ;

binds_opt
  : '(' binds ')'               { $$ = $2; }
  | '(' error ')'               { $$ = (BindList){ 0 }; STOP_WHEN_HOPELESS; }
  ;

binds
  : bind                        { $$ = (BindList){ $1, $1 }; }
  | binds ',' bind              { $$ = $1; LIST_APPEND($$, $3); }
  ;

bind
  : name '<' expr               { $$ = build_bind(p, $1, $3, @1); }
  ;

options
  : %empty                      { $$ = NULL; }
  | options BATCH '(' expr ')'  { $$ = $1; set_once(p, &$$, $4, "batch", @2); }
  ;

instances
  : %empty                      { $$ = (BindList){ 0 }; }
  | '[' bind ']'                { $$ = (BindList){ $2, $2 }; }
  ;

warps
  : WARP '(' range ')'          { $$ = $3; }
  | WARPGROUP '(' range ')'     { $$ = $3; $$.warpgroups = true; }
  ;

range
  : expr                        { $$ = (Role){ .first = $1 }; }
  | expr DOTDOT expr            { $$ = (Role){ .first = $1, .last = $3 }; }
  ;

expr_opt
  : %empty                      { $$ = NULL; }
  | expr
  ;

/* Of a call. */
args_opt
  : %empty                      { $$ = (ExprList){ 0 }; }
  | args
  ;

args
  : initializer                 { $$ = (ExprList){ 0 }; list_add_expr(&$$, $1); }
  | args ',' initializer        { $$ = $1; list_add_expr(&$$, $3); }
  ;

exprs
  : expr                        { $$ = (ExprList){ 0 }; list_add_expr(&$$, $1); }
  | exprs ',' expr              { $$ = $1; list_add_expr(&$$, $3); }
  ;

expr
  : postfix
  | '-' expr %prec UNARY        { $$ = build_unary(p, UN_NEG, $2, @$); }
  | '+' expr %prec UNARY        { $$ = build_unary(p, UN_PLUS, $2, @$); }
  | '!' expr %prec UNARY        { $$ = build_unary(p, UN_NOT, $2, @$); }
  | '~' expr %prec UNARY        { $$ = build_unary(p, UN_BITNOT, $2, @$); }
  | expr '*' expr               { $$ = build_binary(p, BIN_MUL, $1, $3, @$); }
  | expr '/' expr               { $$ = build_binary(p, BIN_DIV, $1, $3, @$); }
  | expr '%' expr               { $$ = build_binary(p, BIN_MOD, $1, $3, @$); }
  | expr '@' expr               { $$ = build_binary(p, BIN_MATMUL, $1, $3, @$); }
  | expr '+' expr               { $$ = build_binary(p, BIN_ADD, $1, $3, @$); }
  | expr '-' expr               { $$ = build_binary(p, BIN_SUB, $1, $3, @$); }
  | expr SHL expr               { $$ = build_binary(p, BIN_SHL, $1, $3, @$); }
  | expr SHR expr               { $$ = build_binary(p, BIN_SHR, $1, $3, @$); }
  | expr '<' expr               { $$ = build_binary(p, BIN_LT, $1, $3, @$); }
  | expr LE expr                { $$ = build_binary(p, BIN_LE, $1, $3, @$); }
  | expr '>' expr               { $$ = build_binary(p, BIN_GT, $1, $3, @$); }
  | expr GE expr                { $$ = build_binary(p, BIN_GE, $1, $3, @$); }
  | expr EQ expr                { $$ = build_binary(p, BIN_EQ, $1, $3, @$); }
  | expr NE expr                { $$ = build_binary(p, BIN_NE, $1, $3, @$); }
  | expr '&' expr               { $$ = build_binary(p, BIN_AND, $1, $3, @$); }
  | expr '^' expr               { $$ = build_binary(p, BIN_XOR, $1, $3, @$); }
  | expr '|' expr               { $$ = build_binary(p, BIN_OR, $1, $3, @$); }
  | expr LAND expr              { $$ = build_binary(p, BIN_LAND, $1, $3, @$); }
  | expr LOR expr               { $$ = build_binary(p, BIN_LOR, $1, $3, @$); }
  | expr '?' expr ':' expr      { $$ = build_cond(p, $1, $3, $5, @$); }
  ;

postfix
  : atom
  | atom subs                   { $$ = build_subscript(p, $1, $2, @$); }
  ;

atom
  : primary
  | postfix '.' name            { $$ = build_member(p, $1, $3, @$); }
  ;

subs
  : sub                         { $$ = (SubList){ 0 }; list_add_sub(&$$, $1); }
  | subs sub                    { $$ = $1; list_add_sub(&$$, $2); }
  ;

sub
  : '[' expr ']'                { $$ = build_sub(p, SUB_INDEX, $2, NULL, @$); }
  | '[' expr PLUS_COLON expr ']'
                                { $$ = build_sub(p, SUB_SLICE, $2, $4, @$); }
  | '[' ':' ']'                 { $$ = build_sub(p, SUB_ALL, NULL, NULL, @$); }
  ;

primary
  : INT                         { $$ = build_expr(p, EX_INT, @$); $$->i = $1; }
  | REAL                        { $$ = build_expr(p, EX_REAL, @$); $$->f = $1; }
  | TRUE                        { $$ = build_expr(p, EX_BOOL, @$); $$->i = 1; }
  | FALSE                       { $$ = build_expr(p, EX_BOOL, @$); }
  | STRING                      { $$ = build_expr(p, EX_STRING, @$); $$->name = $1; }
  | name                        { $$ = build_expr(p, EX_NAME, @$); $$->name = $1; }
  | name '(' args_opt ')'       { $$ = build_call(p, $1, DT_NONE, $3, @$); }
  | name '(' DTYPE ')'          { $$ = build_call(p, $1, $3, (ExprList){ 0 }, @$); }
  | name '(' DTYPE ',' exprs ')'
                                { $$ = build_call(p, $1, $3, $5, @$); }
  | name '(' DTYPE ',' exprs ')' ELSE primary
                                { $$ = build_otherwise(p, build_call(p, $1, $3, $5, @$), $8); }
  | DTYPE '(' expr ')'          { $$ = build_cast(p, $1, $3, @$); }
  | '(' expr ')'                { $$ = $2; }
  ;

string
  : STRING
  ;

name
  : NAME
  | GRID | THREADS | OCCUPANCY | CLUSTER
  | IN | OUT | INOUT | OPTIONAL | STRIDES
  | WARP | WARPGROUP | SETMAXNREG
  | LAYOUT | AT | FROM | COUNT
  | BATCH %prec WORD_AS_NAME
  | LIMIT | WITHIN | TYPE
  ;

%%

/* The tokens that tell where in the grammar the parser stopped. */
typedef struct Place {
	bool top, stmt, expr, after_expr, type, name, initializer;
} Place;

static bool is_char(yysymbol_kind_t k, const char *set)
{
	const char *text = yysymbol_name(k);

	return text[0] == '\'' && text[1] && text[2] == '\'' && strchr(set, text[1]);
}

static Place find_place(const yysymbol_kind_t *kinds, int n)
{
	Place at = { 0 };

	for (int i = 0; i < n; i++) {
		yysymbol_kind_t k = kinds[i];

		at.top |= k == YYSYMBOL_KERNEL;
		at.stmt |= k == YYSYMBOL_WHILE;
		at.expr |= k == YYSYMBOL_INT;
		at.type |= k == YYSYMBOL_DTYPE;
		at.name |= k == YYSYMBOL_NAME;
		at.after_expr |= is_char(k, "*");
		at.initializer |= is_char(k, "=");
	}
	return at;
}

/* Whether token `k` is worth naming: not when a word for the whole place ("a
 * statement", "an expression") covers it, nor the operators after an expression. */
static bool is_telling(yysymbol_kind_t k, Place at)
{
	bool word = k >= YYSYMBOL_GRID && k <= YYSYMBOL_TYPE;

	if (k == YYSYMBOL_YYEOF || k == YYSYMBOL_DTYPE || k == YYSYMBOL_NAME)
		return false;
	if (at.top)
		return false;
	if (at.stmt)
		return is_char(k, "}");
	if (at.after_expr)
		return is_char(k, ";,)]}:") || k == YYSYMBOL_DOTDOT || k == YYSYMBOL_PLUS_COLON;
	if (at.expr)
		return is_char(k, ";)]") || k == YYSYMBOL_RING;
	return !(at.name && (word || is_char(k, "("))) && !(at.initializer && is_char(k, "["));
}

static void expect(Expected *e, const char *item)
{
	if (e->n < sizeof e->items / sizeof e->items[0])
		e->items[e->n++] = item;
	else
		e->more = true;
}

static int yyreport_syntax_error(const yypcontext_t *ctx, Parse *p)
{
	yysymbol_kind_t kinds[YYNTOKENS];
	int n = yypcontext_expected_tokens(ctx, kinds, YYNTOKENS);
	Expected e = { 0 };
	Place at;

	if (n < 0)
		return n;
	at = find_place(kinds, n);
	e.name = at.name;
	if (at.top || at.stmt || at.expr)
		expect(&e, at.top ? "a declaration" : at.stmt ? "a statement" : "an expression");
	if (at.type && !at.top && !at.stmt && !at.expr)
		expect(&e, "a type");
	if (at.name && !at.stmt && !at.expr)
		expect(&e, "a name");
	for (int i = 0; i < n; i++) {
		e.closing |= is_char(kinds[i], ";,)]") && !at.stmt && (at.after_expr || !at.expr);
		if (is_telling(kinds[i], at))
			expect(&e, yysymbol_name(kinds[i]));
	}
	parse_report(p, *yypcontext_location(ctx), &e);
	return 0;
}

/* Only called when the parser's stack is full. */
static void tile_yyerror(const Loc *at, Parse *p, const char *text)
{
	(void)at;
	(void)text;
	parse_report_depth(p);
}
