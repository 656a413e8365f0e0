# Removes what the last `cmake --install` of a build has put where it says, links included; folders stay.
if(NOT EXISTS ${MANIFEST})
	message(FATAL_ERROR "${MANIFEST} is not there: nothing has been installed from this build")
endif()
file(READ ${MANIFEST} files) # file(STRINGS) would end a name at what is not ASCII, and its rest is the name of another file
string(STRIP "${files}" files)
if(files MATCHES ";") # where a list would end a name
	message(FATAL_ERROR "${MANIFEST} has names with semicolons: nothing is removed")
endif()
string(REPLACE "\n" ";" files "${files}")
list(TRANSFORM files PREPEND "$ENV{DESTDIR}")
file(REMOVE ${files})
list(LENGTH files count)
message(STATUS "removed ${count} files")
