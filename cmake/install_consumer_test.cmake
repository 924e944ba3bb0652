# SPDX-License-Identifier: Apache-2.0
# CTest `install_consumer`: installs into a scratch prefix, then builds and runs a host program that finds the package
# by find_package and by pkg-config. Fails too when the installed library needs or shows what it should keep inside.
# Arguments: build, source (folders), cxx (compiler).
set(scratch ${build}/install-test)
set(prefix ${scratch}/prefix)
file(REMOVE_RECURSE ${scratch})
file(MAKE_DIRECTORY ${scratch})

# run(WHAT COMMAND...): fails the test with the output of the command; leaves the output in `output`.
function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${what} failed (${code}):\n${output}\n${errors}")
  endif()
  string(STRIP "${output}" output)
  set(output "${output}" PARENT_SCOPE)
endfunction()

run("install" ${CMAKE_COMMAND} --install ${build} --prefix ${prefix})

file(GLOB_RECURSE test_headers ${prefix}/*/bonsai/testing.h)
if(test_headers)
  message(FATAL_ERROR "${test_headers} is installed, but is not part of the stable interface (cmake/install.cmake)")
endif()

run("find_package" ${CMAKE_COMMAND} -G Ninja -S ${source}/cmake/consumer -B ${scratch}/cmake
    -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${cxx})
run("build by find_package" ${CMAKE_COMMAND} --build ${scratch}/cmake)
run("program by find_package" ${scratch}/cmake/consumer ${scratch}/pool-cmake)

file(GLOB_RECURSE package ${prefix}/*/bonsai.pc)
cmake_path(GET package PARENT_PATH package_folder)
set(ENV{PKG_CONFIG_PATH} ${package_folder})
run("pkg-config" pkg-config --cflags --libs bonsai)
separate_arguments(flags UNIX_COMMAND "${output}")
run("build by pkg-config" ${cxx} -std=c++20 ${source}/cmake/consumer/consumer.cc -o ${scratch}/consumer ${flags})
run("pkg-config" pkg-config --variable=libdir bonsai)
set(ENV{LD_LIBRARY_PATH} ${output})
run("program by pkg-config" ${scratch}/consumer ${scratch}/pool-pkg-config)

file(GLOB_RECURSE library ${prefix}/*/libbonsai.so)
run("readelf" readelf --dynamic ${library})
if(output MATCHES "NEEDED[^\n]*(gflags|glog)")
  message(FATAL_ERROR "libbonsai.so needs gflags or glog; they belong to the programs:\n${output}")
endif()
run("nm" nm --dynamic --defined-only --demangle ${library})
if(output MATCHES "[^\n]*(gflags|google|absl::|bonsai::[a-z])[^\n]*")
  message(FATAL_ERROR "libbonsai.so shows what it should keep inside (cmake/exports.map): ${CMAKE_MATCH_0}")
endif()
if(NOT output MATCHES "bonsai::DB::Open")
  message(FATAL_ERROR "libbonsai.so does not show bonsai::DB::Open (cmake/exports.map)")
endif()
file(REMOVE_RECURSE ${scratch})
