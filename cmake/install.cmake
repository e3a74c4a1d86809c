# The libraries users link, and everything `cmake --install` puts in place.
#   libwafer-runtime.so  opens and runs plans; no LLVM inside
#   libwafer.so          imports, compiles, places; LLVM inside, none of it visible
# Only wafer_* leaves either of them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(exports ${PROJECT_SOURCE_DIR}/cmake/exports.map)

# shared(name layers... NEEDS targets...): whole layers as one shared library.
function(shared name)
  cmake_parse_arguments(arg "" "" "NEEDS" ${ARGN})
  file(WRITE ${CMAKE_BINARY_DIR}/generated/${name}.c "/* every object comes from the layers */\n")
  add_library(${name} SHARED ${CMAKE_BINARY_DIR}/generated/${name}.c)
  foreach(layer ${arg_UNPARSED_ARGUMENTS})
    add_dependencies(${name} wafer_${layer})
    list(APPEND archives $<TARGET_FILE:wafer_${layer}>)
  endforeach()
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${name} PRIVATE -Wl,--whole-archive ${archives} -Wl,--no-whole-archive ${arg_NEEDS})
  target_link_options(${name} PRIVATE -Wl,--version-script=${exports} -Wl,--gc-sections)
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
                                           LINK_DEPENDS "${exports};${archives}" LINKER_LANGUAGE CXX)
endfunction()

shared(wafer-runtime runtime
       NEEDS LibXml2::LibXml2 ZLIB::ZLIB PkgConfig::XXHASH PkgConfig::CJSON PkgConfig::PCRE2
             PkgConfig::MAGICK ${WAFER_DNNL} Threads::Threads gomp m)
shared(libwafer passes frontend backend NEEDS wafer_mlir)
set_target_properties(libwafer PROPERTIES OUTPUT_NAME wafer EXPORT_NAME wafer)
target_link_libraries(libwafer PUBLIC wafer-runtime)

install(TARGETS wafer wafer-opt RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS wafer-runtime libwafer EXPORT wafer LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET wafer-mpi)
  install(TARGETS wafer-mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/wafer DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} PATTERN ir.h EXCLUDE)
install(DIRECTORY tools/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(DIRECTORY runtime/machines DESTINATION ${CMAKE_INSTALL_DATADIR}/wafer)
install(FILES runtime/plan/plan.rng runtime/plan/placement.rng passes/ir/nn.irdl.mlir passes/ir/wafer.irdl.mlir docs/report.schema.json
        DESTINATION ${CMAKE_INSTALL_DATADIR}/wafer)
install(FILES LICENSE NOTICE README.md ARCHITECTURE.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT wafer NAMESPACE wafer:: FILE waferTargets.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/wafer)

file(WRITE ${CMAKE_BINARY_DIR}/generated/waferConfig.cmake
     "include(\${CMAKE_CURRENT_LIST_DIR}/waferTargets.cmake)\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/waferConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/waferConfig.cmake
              ${CMAKE_BINARY_DIR}/generated/waferConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/wafer)
foreach(package wafer wafer-runtime)
  configure_file(cmake/${package}.pc.in generated/${package}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/generated/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
