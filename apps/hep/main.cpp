// hep: the classifier of collision events of "Deep Learning at 15PF" (Kurth et al., SC17).
#include "hep/reporter.hpp"
#include "hep/task.hpp"
#include "program/run.hpp"

int main(int argc, char** argv) {
  petaflow::hep::HepTask task;
  const petaflow::hep::HepReporter reporter;
  return petaflow::run(argc, argv, task, reporter);
}
