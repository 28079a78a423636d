#include "comm/polled.hpp"

#include <cstdlib>
#include <utility>

namespace petaflow {
namespace {

class PolledTransport final : public Transport {
 public:
  PolledTransport(std::unique_ptr<Transport> inner, std::shared_ptr<const std::function<void()>> poll)
      : inner_(std::move(inner)), poll_(std::move(poll)) {}

  std::string name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const Nodes& nodes() const override { return inner_->nodes(); }
  Message send(std::span<const std::byte> bytes, int to, Tag tag) override { return inner_->send(bytes, to, tag); }
  Message receive(std::span<std::byte> bytes, int from, Tag tag) override { return inner_->receive(bytes, from, tag); }
  bool has_all_reduce() const override { return inner_->has_all_reduce(); }
  Message all_reduce(void* values, std::size_t count, Element element, ReduceOp operation) override {
    return inner_->all_reduce(values, count, element, operation);
  }
  bool done(Message& message) override { return inner_->done(message); }

  void wait(const std::function<bool()>& over, const char* call, double until_s) override {
    const auto over_or_poll = [&] {
      if (over()) return true;
      if (*poll_) (*poll_)();
      return false;
    };
    inner_->wait(std::ref(over_or_poll), call, until_s);  // a reference fits into std::function without memory
  }
  double now_s() const override { return inner_->now_s(); }
  void work(double seconds) override { inner_->work(seconds); }
  void work_on(std::size_t bytes) override { inner_->work_on(bytes); }

  void begin_collective() override { inner_->begin_collective(); }
  void watch_hangs(HangOptions options) override { inner_->watch_hangs(std::move(options)); }
  std::unique_ptr<Transport> split(int group) override {
    return std::make_unique<PolledTransport>(inner_->split(group), poll_);
  }
  [[noreturn]] void abort(int exit_code) override {
    inner_->abort(exit_code);
    std::abort();  // compilers do not take a virtual function's word that it does not return
  }

 private:
  std::unique_ptr<Transport> inner_;
  std::shared_ptr<const std::function<void()>> poll_;
};

}  // namespace

std::unique_ptr<Transport> make_polled_transport(std::unique_ptr<Transport> inner,
                                                 std::shared_ptr<const std::function<void()>> poll) {
  return std::make_unique<PolledTransport>(std::move(inner), std::move(poll));
}

}  // namespace petaflow
