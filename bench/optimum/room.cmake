# GLPK solves the yardsticks of braid bench (integer programs); nothing that a peer runs calls it. It is under the GPL:
# leave it out with -DBRAID_GLPK=OFF where that matters.
if(BRAID_GLPK)
  find_library(GLPK_LIBRARY glpk)
  find_path(GLPK_INCLUDE glpk.h)
  mark_as_advanced(GLPK_LIBRARY GLPK_INCLUDE)
endif()
if(BRAID_GLPK AND GLPK_LIBRARY AND GLPK_INCLUDE)
  target_include_directories(braid_sim PUBLIC ${GLPK_INCLUDE})
  target_link_libraries(braid_sim PUBLIC ${GLPK_LIBRARY})
  target_compile_definitions(braid_sim PUBLIC BRAID_HAVE_GLPK)
else()
  message(STATUS "libglpk-dev is missing or BRAID_GLPK is off: braid bench knows no optimum for several data peers")
endif()
