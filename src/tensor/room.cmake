find_package(Threads REQUIRED)
target_link_libraries(braid_tensor PUBLIC Threads::Threads)

# Our threads share the work and each of their calls stays on its thread. Debian's serial flavour is no use for that: it
# hands the same buffer to two callers (0.3.21), so the threaded flavour is taken, kept to one thread per call.
if(BRAID_BLAS)
  find_library(BRAID_OPENBLAS_LIBRARY NAMES openblas
    HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread)
  find_path(BRAID_OPENBLAS_INCLUDE NAMES openblas_config.h
    HINTS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread PATH_SUFFIXES openblas)
  if(NOT BRAID_OPENBLAS_LIBRARY OR NOT BRAID_OPENBLAS_INCLUDE)
    message(FATAL_ERROR "OpenBLAS is missing: install libopenblas-pthread-dev, or configure with -DBRAID_BLAS=OFF")
  endif()
  target_compile_definitions(braid_tensor PRIVATE BRAID_BLAS)
  target_include_directories(braid_tensor SYSTEM PRIVATE ${BRAID_OPENBLAS_INCLUDE})
  target_link_libraries(braid_tensor PUBLIC ${BRAID_OPENBLAS_LIBRARY})
endif()

# The loader would choose a vector width before the sanitizer is ready.
if(BRAID_SANITIZE)
  target_compile_definitions(braid_tensor PRIVATE TENSOR_ONE_TARGET)
endif()
