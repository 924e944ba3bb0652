# SPDX-License-Identifier: Apache-2.0
# bonsai_mutants(OUT ROOM [REPLACE library]): copies of a room's sources in which tests switch off rules of its
# protocol, made at build time by scripts/mutate.py from ROOM/testing/mutants. OUT is the list of their paths. A target
# that compiles them adds ${BONSAI_MUTANTS_INCLUDE} to its options, so that the mutants' headers are found before the
# originals. REPLACE: they are linked before this library and replace the originals in it. Therefore each original is a
# separate object, even in unity builds.
# bonsai_patches(OUT FOLDER): likewise, copies of sources of rooms that a study measures, made from
# FOLDER/ROOM/FILE.patches. They are linked before the rooms' libraries and replace the originals there.
set(BONSAI_MUTANTS_INCLUDE "SHELL:-iquote ${CMAKE_BINARY_DIR}/mutants")

function(bonsai_mutants out room)
  cmake_parse_arguments(MUTANTS "" "REPLACE" "" ${ARGN})
  set(folder ${PROJECT_SOURCE_DIR}/${room})
  set(script ${PROJECT_SOURCE_DIR}/scripts/mutate.py)
  file(GLOB lists CONFIGURE_DEPENDS ${folder}/testing/mutants/*.mutants)
  set(copies)
  set(sources)
  foreach(list IN LISTS lists)
    cmake_path(GET list STEM LAST_ONLY source)
    list(APPEND sources ${folder}/${source})
    list(APPEND copies ${CMAKE_BINARY_DIR}/mutants/${room}/${source})
    if(MUTANTS_REPLACE)
      set_source_files_properties(${folder}/${source} TARGET_DIRECTORY ${MUTANTS_REPLACE}
                                  PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
  add_custom_command(
    OUTPUT ${copies}
    COMMAND Python3::Interpreter ${script} --room ${room} --out ${CMAKE_BINARY_DIR}/mutants
    DEPENDS ${lists} ${sources} ${folder}/testing/mutants.h ${script}
    COMMENT "Putting mutants into copies of ${room}/"
    VERBATIM)
  set(${out} ${copies} PARENT_SCOPE)
endfunction()

function(bonsai_patches out folder)
  set(script ${PROJECT_SOURCE_DIR}/scripts/mutate.py)
  file(GLOB_RECURSE lists CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/${folder}
       ${PROJECT_SOURCE_DIR}/${folder}/*.patches)
  set(copies)
  set(inputs ${script} ${PROJECT_SOURCE_DIR}/${folder}/patches.h)
  foreach(list IN LISTS lists)
    cmake_path(REMOVE_EXTENSION list LAST_ONLY OUTPUT_VARIABLE source)
    string(REGEX MATCH "^[^/]+" room ${source})
    list(APPEND copies ${CMAKE_BINARY_DIR}/patched/${source})
    list(APPEND inputs ${PROJECT_SOURCE_DIR}/${folder}/${list} ${PROJECT_SOURCE_DIR}/${source})
    set_source_files_properties(${PROJECT_SOURCE_DIR}/${source} TARGET_DIRECTORY bonsai_${room}
                                PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
  add_custom_command(
    OUTPUT ${copies}
    COMMAND Python3::Interpreter ${script} --patches ${folder} --out ${CMAKE_BINARY_DIR}/patched
    DEPENDS ${inputs}
    COMMENT "Patching copies of the store's sources"
    VERBATIM)
  set(${out} ${copies} PARENT_SCOPE)
endfunction()
