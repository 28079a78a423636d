// Profiling tools see what a training step does, by name.
#include <nlohmann/json.hpp>

#include "program.hpp"

namespace petaflow {
namespace {

class KokkosTools : public Program {};

TEST_F(KokkosTools, SeeTheWholeStepByName) {
  write_input("");
  const fs::path tool = program_.parent_path().parent_path() / "lib" / "libpetaflow_kokkos_tool.so";
  ASSERT_TRUE(fs::exists(tool)) << tool;
  // On a busy machine a step may be put aside between two names: one of a few runs must see nearly everything.
  nlohmann::json seen;
  double share = 0;
  for (int attempt = 0; attempt < 5 && share < 0.95; ++attempt) {
    const Outcome outcome = run("bench small.toml --steps 5 data.height=64 data.width=64 model.filters=[64,64,64]", 1,
                                "env KOKKOS_TOOLS_LIBS=" + tool.string() + " PETAFLOW_TOOL_OUTPUT=tool.json");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    seen = nlohmann::json::parse(text_of(folder_ / "tool.json"));
    ASSERT_GT(seen["step_s"], 0);
    share = seen["named_s"].get<double>() / seen["step_s"].get<double>();
  }
  EXPECT_GE(share, 0.95);
  const auto has = [&](const char* kind, const std::string& begin, const std::string& end) {
    return std::ranges::any_of(seen[kind], [&](const nlohmann::json& name) {
      return name.get<std::string>().starts_with(begin) && name.get<std::string>().ends_with(end);
    });
  };
  for (const char* pass : {"forward", "backward_data", "backward_weights"}) {
    const std::string name = std::string("petaflow::conv2::") + pass;
    EXPECT_TRUE(has("kernels", name + "[", "]")) << seen["kernels"];
    EXPECT_TRUE(has("regions", name, pass)) << seen["regions"];
  }
  // Everything of ours has a name of ours; Kokkos names what it does itself.
  for (const char* kind : {"regions", "kernels", "allocations"}) {
    for (const std::string name : seen[kind]) {
      EXPECT_TRUE(name.starts_with("petaflow::") || name.starts_with("Kokkos::") || name == "[unlabeled]")
          << kind << ": " << name;
    }
  }
}

TEST_F(KokkosTools, ALibraryThatCannotBeLoadedIsAnError) {
  for (const int ranks : {1, 2}) {
    const Outcome outcome = run("summary small.toml", ranks, "env KOKKOS_TOOLS_LIBS=/none/tool.so");
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_NE(outcome.err.find("KOKKOS_TOOLS_LIBS: /none/tool.so"), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace petaflow
