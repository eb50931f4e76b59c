-- A dead letter that a person discards is lost, and its loss says who did that and why. NULL: the device declared it itself.
ALTER TABLE stream_losses ADD COLUMN declared_by text, ADD COLUMN note text;
ALTER TABLE station_losses ADD COLUMN declared_by text, ADD COLUMN note text;
ALTER TABLE dead_letter_actions ADD COLUMN note text;
