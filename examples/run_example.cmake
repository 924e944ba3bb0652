# SPDX-License-Identifier: Apache-2.0
# Runs `program` twice on the fresh pool `pool` and compares its output with the file `expected`, where RUN is replaced
# by the number of the run; the examples of all languages have the same output. Arguments: -D program= -D pool= -D
# expected=
file(REMOVE ${pool})
file(READ ${expected} template)
foreach(run 1 2)
  execute_process(COMMAND ${program} ${pool} OUTPUT_VARIABLE output ERROR_VARIABLE error RESULT_VARIABLE code)
  string(REPLACE "RUN" "${run}" wanted "${template}")
  if(NOT code EQUAL 0 OR NOT output STREQUAL wanted)
    message(FATAL_ERROR "Run ${run} of ${program} ended with ${code}:\n${error}\n"
            "It printed:\n${output}\nExpected:\n${wanted}")
  endif()
endforeach()
file(REMOVE ${pool})
