// A folder for the files of one test on several ranks.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.hpp"
#include "scratch_folder.hpp"

namespace petaflow::test {

/// A folder of rank 0 that all ranks see.
class SharedFolder {
 public:
  explicit SharedFolder(Communicator& comm) : comm_(comm) {
    if (comm.rank() == 0) mine_ = std::make_unique<ScratchFolder>();
    path_ = broadcast_text(comm, mine_ ? mine_->path() : "");
  }
  ~SharedFolder() { comm_.barrier(); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  Communicator& comm_;
  std::unique_ptr<ScratchFolder> mine_;
  std::string path_;
};

}  // namespace petaflow::test
