// hep: the classifier of collision events of "Deep Learning at 15PF" (Kurth et al., SC17).
#include "hep/hep_app.hpp"
#include "program/run.hpp"

int main(int argc, char** argv) {
  petaflow::hep::HepApplication application;
  return petaflow::run(argc, argv, application);
}
