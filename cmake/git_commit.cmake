# cmake -D folder=CHECKOUT -D out=FILE -P git_commit.cmake: writes the commit of the checkout as a macro, only when it changed.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${folder} describe --always --dirty --abbrev=12 --match v* OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(status OR NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${out} CONTENT "#define PETAFLOW_GIT_COMMIT \"@commit@\"\n" @ONLY)
