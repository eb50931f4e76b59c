// What the board does with a sketch.
#include SKETCH

int main() {
  setup();
  for (;;) loop();
}
