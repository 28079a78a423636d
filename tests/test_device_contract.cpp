// The stand-in for a GPU finds mistakes: the guarded memory space (preset guarded).
#include "program.hpp"

namespace petaflow {
namespace {

class PlantedMistake : public Program {
 protected:
  PlantedMistake() : Program("tests/planted_mistake") {}
};

#if defined(PETAFLOW_GUARDED)

TEST_F(PlantedMistake, IsCaughtInGuardedMemory) {
  struct Case {
    const char *mistake, *message, *place;
  };
  for (const Case& c :
       {Case{"host_read", "the host reads device memory \"planted\", byte 28 of", "planted_mistake.cpp:"},
        Case{"host_write", "the host writes to device memory \"planted\", byte 32 of", "planted_mistake.cpp:"},
        Case{"host_pointer", "kernel \"petaflow::copy[kokkos]\", launched at ", "planted_mistake.cpp:"},
        Case{"host_pointer_in_struct", "a copy to device memory \"test\" brings a host pointer in byte 32 of",
             "planted_mistake.cpp:"},
        Case{"host_loop", "the host, in loop \"planted_loop\" without launch(), reads device memory \"planted\"",
             "planted_mistake.cpp:"},
        Case{"missing_copy", "device memory \"planted\" that nothing has written to", "planted_mistake.cpp:"},
        Case{"missing_copy_before_kernel", "device memory \"result\" that nothing has written to",
             "planted_mistake.cpp:"},
        Case{"kernel_past_end", "kernel \"petaflow::copy[kokkos]\" writes to device memory \"planted\", byte ",
             "planted_mistake.cpp:"},
        Case{"kernel_on_freed", "kernel \"petaflow::copy[kokkos]\" reads device memory \"gone\", which was freed",
             "planted_mistake.cpp:"},
        Case{"copy_past_end", " reads device memory \"planted\", byte ", "planted_mistake.cpp:"},
        Case{"host_memcpy", "the host reads device memory \"planted\", byte ", "planted_mistake.cpp:"},
        Case{"host_algorithm", "the host writes to device memory \"planted\", byte 0 of", "planted_mistake.cpp:"},
        Case{"host_view", "the host writes to device memory \"planted\", byte 44 of", "planted_mistake.cpp:"}}) {
    const Outcome outcome = run(c.mistake);
    EXPECT_EQ(outcome.code, 98) << c.mistake << "\n" << outcome.out << outcome.err;
    EXPECT_NE(outcome.err.find(c.message), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(c.place), std::string::npos) << outcome.err;
  }
  const Outcome outcome = run("none");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

#else

TEST_F(PlantedMistake, IsCaughtInGuardedMemory) { GTEST_SKIP() << "SKIPPED: only preset guarded sees it"; }

#endif

}  // namespace
}  // namespace petaflow
