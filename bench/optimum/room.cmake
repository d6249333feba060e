# GLPK solves integer programs: the optima of several data peers that braid-bench compares with. GLPK is under the GPL. The
# program braid never links this library; -DBRAID_GLPK=OFF builds braid-bench without it.
if(BRAID_GLPK)
  find_library(GLPK_LIBRARY glpk)
  find_path(GLPK_INCLUDE glpk.h)
  mark_as_advanced(GLPK_LIBRARY GLPK_INCLUDE)
endif()
if(BRAID_GLPK AND GLPK_LIBRARY AND GLPK_INCLUDE)
  target_include_directories(braid_bench_optimum PUBLIC ${GLPK_INCLUDE})
  target_link_libraries(braid_bench_optimum PUBLIC ${GLPK_LIBRARY})
  target_compile_definitions(braid_bench_optimum PUBLIC BRAID_HAVE_GLPK)
else()
  message(STATUS "libglpk-dev is missing or BRAID_GLPK is off: braid-bench knows no optimum for several data peers")
endif()
