// The picture is drawn anew with each beat: what moves in it goes on from where it was.
"use strict";

(() => {
  const goOn = () => {
    for (const animation of document.getAnimations()) {
      if (animation.animationName === "along") animation.startTime = 0;
    }
  };
  document.addEventListener("htmx:afterSettle", goOn);
  goOn();
})();
