// Runs the cases of a test program on all ranks of MPI: rank 0 prints, a failure on any rank fails the program.
#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>

#include <Kokkos_Core.hpp>

namespace {

/// On ranks other than 0: only what fails.
class FailurePrinter final : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank_, result.file_name() != nullptr ? result.file_name() : "?",
                 result.line_number(), result.message());
  }

 private:
  int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int failed = 1;
  {
    std::string quiet = "--kokkos-disable-warnings";  // its advice on binding, once per rank
    std::vector<char*> arguments = {argv[0], quiet.data(), nullptr};
    int count = 2;
    const Kokkos::ScopeGuard kokkos(count, arguments.data());
    testing::InitGoogleTest(&argc, argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank != 0) {
      testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
      delete listeners.Release(listeners.default_result_printer());
      listeners.Append(new FailurePrinter(rank));
    }
    failed = RUN_ALL_TESTS();
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0 && failed != 0 && testing::UnitTest::GetInstance()->Passed()) std::puts("failed on another rank");
  }
  MPI_Finalize();
  return failed;
}
