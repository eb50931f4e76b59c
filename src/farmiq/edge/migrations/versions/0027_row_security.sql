-- Requests read as the role `reader_role()`, which owns nothing, may only read, and sees the rows of the tenants in the setting
-- `farmiq.tenants`: ids with commas between them, or '*' for all. Without the setting there are no rows. The owner of the tables is
-- not affected. `farmiq.kit.tenant_reads` makes the role and grants it what has a policy called "read".
--
-- No policy names a role: a backup can be restored into a cluster that has other ones.
CREATE FUNCTION reader_role() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT left(pg_get_userbyid(relowner), 56) || '_reader' FROM pg_class WHERE oid = 'alembic_version'::regclass
$$;

-- For the rest of the transaction. False: nobody made the role, or it may not read yet, and all rows stay visible.
CREATE FUNCTION read_as(tenants text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  reader oid := to_regrole(quote_ident(reader_role()));
  ability text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
  PERFORM set_config('farmiq.tenants', tenants, true);
  IF reader IS NULL OR NOT pg_has_role(reader, ability) OR NOT has_any_column_privilege(reader, 'streams', 'SELECT') THEN
    RETURN false;
  END IF;
  PERFORM set_config('role', reader_role(), true);
  RETURN true;
END
$$;

-- The setting is read once for each query, not for each row: that is what the inner SELECTs are for. One tenant, which is what almost
-- every request names, is compared first, because a comparison with a list costs each row twice as much.
DO $$
DECLARE
  own record;
BEGIN
  FOR own IN
    SELECT pg_class.oid::regclass AS name, relname
      FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'tenant_id' AND NOT attisdropped
     WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
  LOOP
    EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', own.name);
    -- What a service keeps for itself, and no request shows.
    CONTINUE WHEN own.relname = ANY (ARRAY['ingress_dedupe', 'media_bytes_of_day', 'telemetry_agg_unsent']);
    EXECUTE format(
      $policy$CREATE POLICY read ON %s FOR SELECT USING (
          tenant_id = (SELECT current_setting('farmiq.tenants', true))
          OR (SELECT current_setting('farmiq.tenants', true) = '*')
          OR tenant_id = ANY ((SELECT string_to_array(current_setting('farmiq.tenants', true), ','))::text[]))$policy$,
      own.name);
  END LOOP;
END
$$;

-- Alerts of the edge box itself have no tenant and are shown to each.
ALTER POLICY read ON ops_alerts USING (
  tenant_id IS NULL
  OR (SELECT current_setting('farmiq.tenants', true) = '*')
  OR tenant_id = ANY ((SELECT string_to_array(current_setting('farmiq.tenants', true), ','))::text[]));

-- Of the whole box, without anything of a tenant.
ALTER TABLE retired_samples ENABLE ROW LEVEL SECURITY;
CREATE POLICY read ON retired_samples FOR SELECT USING (true);
ALTER TABLE inference_models ENABLE ROW LEVEL SECURITY;
CREATE POLICY read ON inference_models FOR SELECT USING (true);
