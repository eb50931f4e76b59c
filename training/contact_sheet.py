"""Draws docs/images/rendered-animals.jpg: one animal as it grows on one station, then others in scenes of each family.

.venv-training/bin/python training/contact_sheet.py"""

from pathlib import Path

from PIL import Image

from farmiq.sim.animals import born, stance, weight_kg
from farmiq.sim.coats import SPOTTED
from farmiq.sim.misfires import misfire
from farmiq.sim.pictures import picture
from farmiq.sim.samples import weighed
from farmiq.sim.scenes import TRAINING, UNSEEN, VALIDATION, Floor, Scene

TARGET = Path(__file__).resolve().parent.parent / "docs" / "images" / "rendered-animals.jpg"
COLUMNS, CELL = 4, (320, 240)
AGES_DAYS = (63, 98, 133, 175)
OTHERS = ((TRAINING, 13), (TRAINING, 3), (VALIDATION, 18), (VALIDATION, 25), (UNSEEN, 6), (UNSEEN, 9), (UNSEEN, 15))


def main() -> None:
    growing, station = born(21, SPOTTED), Scene(floor=Floor(kind="concrete", seed=4))
    images = [
        picture(growing, weight_kg(growing, age_days), stance(age_days), station, age_days) for age_days in AGES_DAYS
    ]
    images += [weighed(family, seed).image for family, seed in OTHERS]
    images.append(misfire("crowded", TRAINING, 50))
    rows = -(-len(images) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * CELL[0], rows * CELL[1]))
    for index, image in enumerate(images):
        place = (index % COLUMNS * CELL[0], index // COLUMNS * CELL[1])
        sheet.paste(image.resize(CELL, Image.Resampling.BOX), place)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(TARGET, quality=80)
    print(f"drawn: {TARGET.name}, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
