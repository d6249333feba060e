# bench/optimum/room.cmake looks for GLPK, which solves the integer programs of serving swarms, too.
if(BRAID_GLPK AND GLPK_LIBRARY AND GLPK_INCLUDE)
  target_include_directories(braid_bench_serving PUBLIC ${GLPK_INCLUDE})
  target_link_libraries(braid_bench_serving PUBLIC ${GLPK_LIBRARY})
  target_compile_definitions(braid_bench_serving PUBLIC BRAID_HAVE_GLPK)
endif()
