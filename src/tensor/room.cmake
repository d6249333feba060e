find_package(Threads REQUIRED)
target_link_libraries(braid_tensor PUBLIC Threads::Threads)

# The serial flavour first: our own threads share the work, so a BLAS with threads of its own only costs memory. Debian
# builds it with locking (several threads may call it at once), but its dispatcher prefers the threaded one, so the
# folder is named in the run path.
if(BRAID_BLAS)
  find_library(BRAID_OPENBLAS NAMES openblas PATH_SUFFIXES openblas-serial NO_CACHE
    PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial NO_DEFAULT_PATH)
  find_library(BRAID_OPENBLAS NAMES openblas)
  find_path(BRAID_OPENBLAS_INCLUDE NAMES openblas_config.h
    HINTS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial PATH_SUFFIXES openblas openblas-pthread)
  if(NOT BRAID_OPENBLAS OR NOT BRAID_OPENBLAS_INCLUDE)
    message(FATAL_ERROR "OpenBLAS is missing: install libopenblas-serial-dev, or configure with -DBRAID_BLAS=OFF")
  endif()
  target_compile_definitions(braid_tensor PRIVATE BRAID_BLAS)
  target_include_directories(braid_tensor SYSTEM PRIVATE ${BRAID_OPENBLAS_INCLUDE})
  target_link_libraries(braid_tensor PUBLIC ${BRAID_OPENBLAS})
endif()

if(BRAID_SANITIZE)
  target_compile_definitions(braid_tensor PRIVATE TENSOR_ONE_TARGET)
endif()
