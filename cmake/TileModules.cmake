# tile_add_module(TARGET SOURCE FILE.tile [OUTPUT FILE] [DEFINES NAME=VALUE...] [INCLUDES DIR...] [OPTIONS ...]
#                 [HEADER FILE.h])
#
# Compiles a .tile file into a module with tilec when TARGET is built, and again when the file, what it imports or tilec
# changes.  OUTPUT is relative to the current binary folder (default: the file's name with .tmod).  HEADER also writes the C
# header.  The target's properties TILE_MODULE and TILE_HEADER are the full paths.  TILE_MODULE_COMPILER: a target or program
# in place of tilec.
if(POLICY CMP0116) # dependency files name outputs in full: without it, in projects for CMake before 3.20, ninja builds them each time
	cmake_policy(SET CMP0116 NEW)
endif()
function(tile_add_module target)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "SOURCE;OUTPUT;HEADER" "DEFINES;INCLUDES;OPTIONS")
	if(arg_UNPARSED_ARGUMENTS)
		list(JOIN arg_UNPARSED_ARGUMENTS " " words)
		message(FATAL_ERROR "tile_add_module(${target}): '${words}' belongs to none of SOURCE, OUTPUT, DEFINES, INCLUDES, OPTIONS, HEADER")
	endif()
	if(NOT arg_SOURCE)
		message(FATAL_ERROR "tile_add_module(${target}): SOURCE is missing")
	endif()
	if(TILE_MODULE_COMPILER)
		set(compiler ${TILE_MODULE_COMPILER})
	elseif(TARGET tilec)
		set(compiler tilec)
	elseif(TARGET tile::tilec)
		set(compiler tile::tilec)
	else()
		message(FATAL_ERROR "tile_add_module(${target}): there is no target tile::tilec in this folder, which find_package(tile) makes in its own and those below")
	endif()
	get_filename_component(source ${arg_SOURCE} ABSOLUTE)
	get_filename_component(name ${arg_SOURCE} NAME_WLE)
	if(NOT arg_OUTPUT)
		set(arg_OUTPUT ${name}.tmod)
	endif()
	get_filename_component(module ${arg_OUTPUT} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_BINARY_DIR})
	get_filename_component(folder ${module} DIRECTORY)
	file(MAKE_DIRECTORY ${folder})
	set(flags ${arg_OPTIONS})
	foreach(define IN LISTS arg_DEFINES)
		list(APPEND flags -D ${define})
	endforeach()
	foreach(dir IN LISTS arg_INCLUDES)
		get_filename_component(dir ${dir} ABSOLUTE)
		list(APPEND flags -I ${dir})
	endforeach()
	add_custom_command(OUTPUT ${module}
		COMMAND ${compiler} ${flags} --emit=module -MD -MF ${module}.d -o ${module} ${source}
		DEPENDS ${source} ${compiler} DEPFILE ${module}.d
		COMMENT "tilec ${name}.tile" VERBATIM)
	set(outputs ${module})
	if(arg_HEADER)
		get_filename_component(header ${arg_HEADER} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_BINARY_DIR})
		get_filename_component(folder ${header} DIRECTORY)
		file(MAKE_DIRECTORY ${folder})
		list(FILTER flags EXCLUDE REGEX "^--report=") # which is of code
		add_custom_command(OUTPUT ${header}
			COMMAND ${compiler} ${flags} --emit=header -MD -MF ${header}.d -o ${header} ${source}
			DEPENDS ${source} ${compiler} DEPFILE ${header}.d
			COMMENT "tilec --emit=header ${name}.tile" VERBATIM)
		list(APPEND outputs ${header})
	endif()
	add_custom_target(${target} ALL DEPENDS ${outputs})
	set_target_properties(${target} PROPERTIES TILE_MODULE ${module} TILE_HEADER "${header}")
endfunction()
