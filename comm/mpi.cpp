#include "comm/mpi.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include <mpi.h>

#include "base/error.hpp"
#include "comm/hang_watch.hpp"

namespace petaflow {
namespace {

// Elements per call: counts are int in MPI 3.
constexpr std::size_t kLargestCount = std::size_t{1} << 30;

/// Owns a communicator.
class MpiComm {
 public:
  ~MpiComm() {
    if (mpi_is_running() && value_ != MPI_COMM_NULL) MPI_Comm_free(&value_);
  }
  MpiComm() = default;
  MpiComm(const MpiComm&) = delete;
  MpiComm& operator=(const MpiComm&) = delete;
  MPI_Comm* address() { return &value_; }
  MPI_Comm get() const { return value_; }

 private:
  MPI_Comm value_ = MPI_COMM_NULL;
};

class MpiCommunicator final : public Communicator {
 public:
  /// The ranks of `all` with this number, in a communicator of their own.
  MpiCommunicator(MPI_Comm all, int group) {
    check_mpi(MPI_Comm_split(all, group, 0, comm_.address()), "MPI_Comm_split");
    // Errors come back as statuses instead of ending the program, so that they can be named.
    check_mpi(MPI_Comm_set_errhandler(comm_.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(comm_.get(), &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm_.get(), &size_), "MPI_Comm_size");
    MpiComm node;
    check_mpi(MPI_Comm_split_type(comm_.get(), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, node.address()),
              "MPI_Comm_split_type");
    watch_ = std::make_unique<HangWatch>(comm_.get());
    check_mpi(MPI_Comm_size(node.get(), &node_size_), "MPI_Comm_size");
  }

  std::string name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int node_size() const override { return node_size_; }

  void all_reduce_sum(std::span<float> values) override { all_reduce(values, MPI_FLOAT, MPI_SUM); }
  void all_reduce_sum(std::span<double> values) override { all_reduce(values, MPI_DOUBLE, MPI_SUM); }
  void all_reduce_max(std::span<double> values) override { all_reduce(values, MPI_DOUBLE, MPI_MAX); }

  void start_all_reduce_sum(std::span<float> values) override {
    for_each_part(values, [&](float* part, int count) {
      check_mpi(MPI_Iallreduce(MPI_IN_PLACE, part, count, MPI_FLOAT, MPI_SUM, comm_.get(), &requests_.emplace_back()),
                "MPI_Iallreduce");
    });
  }

  bool progress() override {
    if (requests_.empty()) return true;
    int done = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    return done != 0;  // those that are done stay, as null requests, until they are waited for
  }

  void wait_all_reduce_sum(std::span<float> values) override {
    watch_->begin_collective();
    for_each_part(values, [&](float*, int) {
      PETAFLOW_REQUIRE(!requests_.empty(), "a sum of {} was not started", values.size());
      watch_->wait(requests_.front(), "all-reduce");
      requests_.erase(requests_.begin());
    });
  }

  void send(std::span<const float> values, int to) override {
    for_each_part(values, [&](const float* part, int count) {
      complete("send",
               [&](MPI_Request* request) { return MPI_Isend(part, count, MPI_FLOAT, to, 0, comm_.get(), request); });
    });
  }

  void receive(std::span<float> values, int from) override {
    for_each_part(values, [&](float* part, int count) {
      complete("receive",
               [&](MPI_Request* request) { return MPI_Irecv(part, count, MPI_FLOAT, from, 0, comm_.get(), request); });
    });
  }

  void broadcast(std::span<std::byte> bytes, int root) override {
    watch_->begin_collective();
    for_each_part(bytes, [&](std::byte* part, int count) {
      complete("broadcast",
               [&](MPI_Request* request) { return MPI_Ibcast(part, count, MPI_BYTE, root, comm_.get(), request); });
    });
  }

  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes) override {
    PETAFLOW_REQUIRE(bytes.size() <= kLargestCount, "{} bytes to gather from a rank", bytes.size());
    const int count = static_cast<int>(bytes.size());
    std::vector<int> counts(rank_ == 0 ? static_cast<std::size_t>(size_) : 0);
    watch_->begin_collective();
    complete("gather", [&](MPI_Request* request) {
      return MPI_Igather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, comm_.get(), request);
    });
    if (rank_ != 0) {
      complete("gather", [&](MPI_Request* request) {
        return MPI_Isend(bytes.data(), count, MPI_BYTE, 0, 1, comm_.get(), request);
      });
      return {};
    }
    std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(size_));
    all[0].assign(bytes.begin(), bytes.end());
    for (std::size_t from = 1; from < all.size(); ++from) {  // one at a time: the sum of the counts may pass an int
      all[from].resize(static_cast<std::size_t>(counts[from]));
      complete("gather", [&](MPI_Request* request) {
        return MPI_Irecv(all[from].data(), counts[from], MPI_BYTE, static_cast<int>(from), 1, comm_.get(), request);
      });
    }
    return all;
  }

  std::unique_ptr<Communicator> split(int group) override {
    auto part = std::make_unique<MpiCommunicator>(comm_.get(), group);
    part->watch_hangs(watch_->options());
    return part;
  }

  void barrier() override {
    watch_->begin_collective();
    complete("barrier", [&](MPI_Request* request) { return MPI_Ibarrier(comm_.get(), request); });
  }

  void watch_hangs(HangOptions options) override { watch_->set_options(std::move(options)); }

  [[noreturn]] void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  template <class T, class F>
  static void for_each_part(std::span<T> values, F&& call) {
    for (std::size_t first = 0; first < values.size(); first += kLargestCount) {
      call(values.data() + first, static_cast<int>(std::min(kLargestCount, values.size() - first)));
    }
  }

  template <class T>
  void all_reduce(std::span<T> values, MPI_Datatype type, MPI_Op op) {
    watch_->begin_collective();
    for_each_part(values, [&](T* part, int count) {
      complete("all-reduce", [&](MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, part, count, type, op, comm_.get(), request);
      });
    });
  }

  /// Starts one operation and waits for it.
  template <class Start>
  void complete(const char* call, Start&& start) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(start(&request), call);
    watch_->wait(request, call);
  }

  MpiComm comm_;
  int rank_ = 0, size_ = 1, node_size_ = 1;
  std::vector<MPI_Request> requests_;  // of sums that were started, the oldest first
  std::unique_ptr<HangWatch> watch_;
};

}  // namespace

void check_mpi(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw CommError(fmt::format("{} failed: {}", call, text));
}

bool mpi_is_running() {
  int initialised = 0, finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised != 0 && finalised == 0;
}

int mpi_world_size() {
  int size = 1;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return size;
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  const std::string all(text.data(), static_cast<std::size_t>(length));
  return all.substr(0, all.find_first_of(",\n"));
}

std::unique_ptr<Communicator> make_mpi_communicator() { return std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, 0); }

MpiSession::MpiSession(int* argc, char*** argv) {
  if (mpi_is_running()) return;
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  owned_ = true;
  if (provided < MPI_THREAD_FUNNELED) {
    failure(
        "this MPI library allows no threads beside the one that calls it (MPI_THREAD_FUNNELED is needed); use a "
        "build of it with thread support");
  }
}

MpiSession::~MpiSession() {
  if (owned_ && mpi_is_running()) MPI_Finalize();
}

}  // namespace petaflow
