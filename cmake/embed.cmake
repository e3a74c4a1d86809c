# embed(files...): writes each file's bytes, as the initialiser of a C array with a closing 0, to
# <build folder>/generated/<file name>.inc. Folders of layer() have `generated` on their include path.
function(embed)
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(....................................................................................................)" "\\1\n" bytes "${bytes}")
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/${name}.inc CONTENT "${bytes}0\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
endfunction()
