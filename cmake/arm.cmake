# For 64-bit ARM, built on another machine; tests run in an emulator. `./run arm` fetches the libraries.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
if(NOT CMAKE_C_COMPILER)
  set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
endif()
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)  # for clang

get_filename_component(arm_root ${CMAKE_CURRENT_LIST_DIR}/../build/arm-libraries ABSOLUTE)
set(arm_libraries ${arm_root}/usr/lib/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH ${arm_root} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${arm_libraries}/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${arm_root})
# the folder of OpenSSL's headers for one architecture
include_directories(SYSTEM ${arm_root}/usr/include/aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${arm_libraries})
