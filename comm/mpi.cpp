#include "comm/mpi.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include <mpi.h>

#include "base/error.hpp"
#include "comm/hang_watch.hpp"
#include "comm/numbered.hpp"

namespace petaflow {
namespace {

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

class MpiTransport final : public Transport {
 public:
  /// The ranks of `all` with this number, in a communicator of their own.
  MpiTransport(MPI_Comm all, int group) {
    check_mpi(MPI_Comm_split(all, group, 0, comm_.address()), "MPI_Comm_split");
    // Errors come back as statuses instead of ending the program, so that they can be named.
    check_mpi(MPI_Comm_set_errhandler(comm_.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(comm_.get(), &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm_.get(), &size_), "MPI_Comm_size");
    // How many messages are under way at a time depends on the others: room for all of a step, so that none allocates.
    constexpr std::size_t kUsual = 1024;
    requests_.reserve(kUsual);
    find_nodes();
    watch_ = std::make_unique<HangWatch>(comm_.get());
  }

  /// Messages that are still under way would be written into memory of others.
  ~MpiTransport() override {
    if (!mpi_is_running() || std::uncaught_exceptions() > 0) return;
    const std::size_t left = requests_.count();
    if (left > 0) std::fprintf(stderr, "petaflow: rank %d ends with %zu messages under way\n", rank_, left);
  }

  std::string name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const Nodes& nodes() const override { return nodes_; }

  Message send(std::span<const std::byte> bytes, int to, Tag tag) override {
    return begin("MPI_Isend", [&](MPI_Request* request) {
      return MPI_Isend(bytes.data(), count_of(bytes.size()), MPI_BYTE, to, tag.number(), comm_.get(), request);
    });
  }
  Message receive(std::span<std::byte> bytes, int from, Tag tag) override {
    return begin("MPI_Irecv", [&](MPI_Request* request) {
      return MPI_Irecv(bytes.data(), count_of(bytes.size()), MPI_BYTE, from, tag.number(), comm_.get(), request);
    });
  }
  bool has_all_reduce() const override { return true; }
  Message all_reduce(void* values, std::size_t count, Element element, ReduceOp operation) override {
    const MPI_Datatype type = element == Element::kF32 ? MPI_FLOAT : MPI_DOUBLE;
    const MPI_Op op = operation == ReduceOp::kSum ? MPI_SUM : MPI_MAX;
    return begin("MPI_Iallreduce", [&](MPI_Request* request) {
      return MPI_Iallreduce(MPI_IN_PLACE, values, count_of(count), type, op, comm_.get(), request);
    });
  }

  bool done(Message& message) override {
    if (message == kNone) return true;
    int flag = 0;
    check_mpi(MPI_Test(&requests_[message - 1], &flag, MPI_STATUS_IGNORE), "MPI_Test");
    if (flag == 0) return false;
    requests_.remove(message - 1);
    message = kNone;
    return true;
  }

  void wait(const std::function<bool()>& over, const char* call, double until_s) override {
    watch_->wait(over, call, until_s);
  }
  double now_s() const override { return HangWatch::now_s(); }
  void begin_collective() override { watch_->begin_collective(); }
  void watch_hangs(HangOptions options) override { watch_->set_options(std::move(options)); }

  std::unique_ptr<Transport> split(int group) override {
    auto part = std::make_unique<MpiTransport>(comm_.get(), group);
    part->watch_hangs(watch_->options());
    return part;
  }

  [[noreturn]] void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);
  }

 private:
  static int count_of(std::size_t count) {
    PETAFLOW_REQUIRE(count <= kLargestMessage, "a message of {}", count);
    return static_cast<int>(count);
  }

  // A node is known by its first rank.
  void find_nodes() {
    MpiComm node;
    check_mpi(MPI_Comm_split_type(comm_.get(), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, node.address()),
              "MPI_Comm_split_type");
    int first = rank_;
    check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, node.get()), "MPI_Bcast");
    std::vector<int> firsts(static_cast<std::size_t>(size_));
    check_mpi(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, comm_.get()), "MPI_Allgather");
    std::vector<int> number(firsts.size()), of_ranks;
    int count = 0;
    for (std::size_t r = 0; r < firsts.size(); ++r) {
      if (firsts[r] == static_cast<int>(r)) number[r] = count++;
      of_ranks.push_back(number[static_cast<std::size_t>(firsts[r])]);
    }
    nodes_ = Nodes(std::move(of_ranks));
  }

  template <class Start>
  Message begin(const char* call, const Start& start) {
    const std::size_t number = requests_.add(MPI_REQUEST_NULL);
    check_mpi(start(&requests_[number]), call);
    return static_cast<Message>(number + 1);
  }

  MpiComm comm_;
  int rank_ = 0, size_ = 1;
  Nodes nodes_{std::vector<int>()};
  Numbered<MPI_Request> requests_;  // of message number + 1
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

std::unique_ptr<Communicator> make_mpi_communicator() {
  return std::make_unique<Communicator>(std::make_unique<MpiTransport>(MPI_COMM_WORLD, 0));
}

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
