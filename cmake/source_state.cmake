# cmake -D folder=CHECKOUT -D out=FILE -P source_state.cmake: writes as macros, only when they changed, the commit of the checkout and
# a hash of the sources that the speed of convolutions depends on, which also tells states apart that are not committed.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${folder} describe --always --dirty --abbrev=12 --match v* OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
if(status OR NOT commit)
  set(commit unknown)
endif()
file(GLOB_RECURSE sources RELATIVE ${folder} ${folder}/kernels/*.?pp ${folder}/src/base/*.?pp ${folder}/src/nn/*.?pp)
list(SORT sources)
set(text)
foreach(source IN LISTS sources)
  file(SHA256 ${folder}/${source} hash)
  string(APPEND text "${source} ${hash}\n")
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING ${hash} 0 16 hash)
file(CONFIGURE OUTPUT ${out} CONTENT "#define PETAFLOW_GIT_COMMIT \"@commit@\"\n#define PETAFLOW_KERNEL_SOURCES \"@hash@\"\n" @ONLY)
