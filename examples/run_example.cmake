# Runs `program` twice on the fresh pool `pool` and compares what it prints; the
# examples of all languages print the same. Arguments: -D program= -D pool=
file(REMOVE ${pool})
foreach(run 1 2)
  execute_process(COMMAND ${program} ${pool} OUTPUT_VARIABLE output ERROR_VARIABLE error RESULT_VARIABLE code)
  set(expected "this is run ${run}
now:
  fruit/apple = red
  fruit/cherry = dark red
before the delete:
  fruit/apple = red
  fruit/banana = yellow
  fruit/cherry = dark red
")
  if(NOT code EQUAL 0 OR NOT output STREQUAL expected)
    message(FATAL_ERROR "Run ${run} of ${program} ended with ${code}:\n${error}\n"
            "It printed:\n${output}\nExpected:\n${expected}")
  endif()
endforeach()
file(REMOVE ${pool})
