// The cases of scaling/referee.hpp on ranks of SimGrid's SMPI, by point-to-point messages of MPI.
//   smpirun -np 64 -platform flat.xml -hostfile hosts referee_smpi halving 1048576 4
// Source: the SimGrid manual 3.32, "The SMPI interface".
#include <mpi.h>
#include <smpi/smpi.h>
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "comm/communicator.hpp"
#include "scaling/referee.hpp"

namespace petaflow::scaling {
namespace {

/// Messages that a rank has under way, of all its communicators: it waits for any of them.
struct Requests {
  std::vector<MPI_Request> under_way;
  std::vector<bool> over;  // not asked for yet
  std::vector<Transport::Message> free;
};

class SmpiTransport final : public Transport {
 public:
  SmpiTransport(MPI_Comm comm, std::shared_ptr<Requests> requests) : comm_(comm), requests_(std::move(requests)) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
    std::vector<int> apart(static_cast<std::size_t>(size_));
    std::iota(apart.begin(), apart.end(), 0);
    nodes_ = Nodes(std::move(apart));
  }

  std::string name() const override { return "smpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const Nodes& nodes() const override { return nodes_; }

  Message send(std::span<const std::byte> bytes, int to, Tag tag) override {
    const void* from = bytes.data() == nullptr ? nothing(bytes.size()) : bytes.data();
    const Message message = add();
    MPI_Isend(from, static_cast<int>(bytes.size()), MPI_BYTE, to, tag.number(), comm_,
              &requests_->under_way[message - 1]);
    return message;
  }
  Message receive(std::span<std::byte> bytes, int from, Tag tag) override {
    void* to = bytes.data() == nullptr ? nothing(bytes.size()) : bytes.data();
    const Message message = add();
    MPI_Irecv(to, static_cast<int>(bytes.size()), MPI_BYTE, from, tag.number(), comm_,
              &requests_->under_way[message - 1]);
    return message;
  }
  bool done(Message& message) override {
    if (message == kNone) return true;
    if (!requests_->over[message - 1]) {
      int flag = 0;
      MPI_Test(&requests_->under_way[message - 1], &flag, MPI_STATUS_IGNORE);
      if (flag == 0) return false;
    }
    requests_->free.push_back(message);
    message = kNone;
    return true;
  }
  void wait(const std::function<bool()>& over, const char*, double until_s) override {
    while (!over() && now_s() < until_s) {
      int which = MPI_UNDEFINED;
      MPI_Waitany(static_cast<int>(requests_->under_way.size()), requests_->under_way.data(), &which,
                  MPI_STATUS_IGNORE);
      if (which != MPI_UNDEFINED) requests_->over[static_cast<std::size_t>(which)] = true;
    }
  }
  double now_s() const override { return MPI_Wtime(); }
  void work(double seconds) override {
    if (seconds > 0) simgrid::s4u::this_actor::sleep_for(seconds);
  }
  std::unique_ptr<Transport> split(int group) override {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(comm_, group, rank_, &part);
    return std::make_unique<SmpiTransport>(part, requests_);
  }
  [[noreturn]] void abort(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::abort();
  }

 private:
  Message add() {
    if (requests_->free.empty()) {
      requests_->under_way.push_back(MPI_REQUEST_NULL);
      requests_->over.push_back(false);
      return static_cast<Message>(requests_->under_way.size());
    }
    const Message message = requests_->free.back();
    requests_->free.pop_back();
    requests_->over[message - 1] = false;
    return message;
  }
  /// Memory that all ranks share, and that SMPI does not copy.
  static void* nothing(std::size_t bytes) {
    static void* const shared = SMPI_SHARED_MALLOC(std::size_t{64} << 20);
    if (bytes > std::size_t{64} << 20) user_error("a message of {} bytes", bytes);
    return shared;
  }

  MPI_Comm comm_;
  std::shared_ptr<Requests> requests_;
  int rank_ = 0, size_ = 1;
  Nodes nodes_{std::vector<int>()};
};

}  // namespace
}  // namespace petaflow::scaling

int main(int argc, char** argv) {
  using namespace petaflow;
  MPI_Init(&argc, &argv);
  if (argc != 4) {
    std::fprintf(stderr, "referee_smpi: reduction or \"servers\", elements, groups\n");
    return 1;
  }
  {
    Communicator all(std::make_unique<scaling::SmpiTransport>(MPI_COMM_WORLD, std::make_shared<scaling::Requests>()));
    const double time_s = scaling::time_of(all, {argv[1], std::atoll(argv[2]), std::atoi(argv[3])});
    if (all.rank() == 0) std::printf("%.9f\n", time_s);
  }
  MPI_Finalize();
  return 0;
}
