# Removes what the last `cmake --install` of a build has put where it says, links included; folders stay.
if(NOT EXISTS ${MANIFEST})
	message(FATAL_ERROR "${MANIFEST} is not there: nothing has been installed from this build")
endif()
file(STRINGS ${MANIFEST} files)
list(TRANSFORM files PREPEND "$ENV{DESTDIR}")
file(REMOVE ${files})
list(LENGTH files count)
message(STATUS "removed ${count} files")
