find_package(Threads REQUIRED)
target_link_libraries(braid_tensor PUBLIC Threads::Threads)

# The loader would select a vector width before the sanitizer is initialised.
if(BRAID_SANITIZE)
  target_compile_definitions(braid_tensor PUBLIC TENSOR_ONE_TARGET)
endif()
