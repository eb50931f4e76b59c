-- A row that is claimed and acknowledged comes into the index of the ids two more times, beside its first entry. Ids rise, so the
-- pages were full when that happened, and every one of them was split. Half full from the start they have room for the claim, and
-- the acknowledgement finds it where the first entry was: the index is no larger in the end. For pages written from now on.
ALTER INDEX sync_outbox_pkey SET (fillfactor = 50);
