import os, lit.formats
config.name = "wafer"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(lit_config.params["build"], "lit")
tools = "/usr/lib/llvm-22/bin"
config.environment["PATH"] = os.pathsep.join([os.path.join(lit_config.params["build"], "bin"), tools, os.environ["PATH"]])
config.substitutions.append(("%dialects", os.path.join(config.test_source_root, "../../passes/ir")))
if os.path.exists(os.path.join(tools, "mlir-opt")):
    config.available_features.add("mlir-opt")
if "ASAN_OPTIONS" in os.environ:
    config.environment["ASAN_OPTIONS"] = os.environ["ASAN_OPTIONS"]
