-- Why a person lets it stand, or what they are doing about it. Unknown for those that were acknowledged before.
ALTER TABLE ops_alerts ADD COLUMN note text;
