-- Each service works as a role of its own, which may do to the tables what it needs and nothing else (`writers.py` beside these
-- versions). The role is taken once for each connection. It has BYPASSRLS: PostgreSQL refuses COPY FROM where row-level security
-- applies, whatever the policies say, and services store for all tenants.
CREATE FUNCTION writer_role(service text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT left(pg_get_userbyid(relowner), 36) || '_' || service FROM pg_class WHERE oid = 'alembic_version'::regclass
$$;

-- For the rest of the session. False: nobody made the role, or it may not write yet, and the session stays the owner's.
CREATE FUNCTION write_as(service text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  writer name := writer_role(service);
  ability text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = writer AND rolbypassrls)
     OR NOT pg_has_role(session_user, writer, ability) OR NOT has_table_privilege(writer, 'job_runs', 'INSERT') THEN
    RETURN false;
  END IF;
  PERFORM set_config('role', writer, false);
  RETURN true;
END
$$;

-- As before, and also for a session that works as a service's role: what it may become is a question about its login.
CREATE OR REPLACE FUNCTION read_as(tenants text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  reader oid := to_regrole(quote_ident(reader_role()));
  ability text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
  PERFORM set_config('farmiq.tenants', tenants, true);
  IF reader IS NULL OR NOT pg_has_role(session_user, reader, ability)
     OR NOT has_any_column_privilege(reader, 'streams', 'SELECT') THEN
    RETURN false;
  END IF;
  PERFORM set_config('role', reader_role(), true);
  RETURN true;
END
$$;

-- Months are the owner's, whoever asks for them. Whoever may delete rows of a table may drop a month of it. Not everybody may call
-- these two: `farmiq.kit.database_roles` sees to that, after a restore too.
CREATE FUNCTION drop_partition(partition regclass) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  asker text := CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
  parent regclass := (SELECT inhparent FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
                       WHERE inhrelid = partition AND relispartition);
BEGIN
  IF parent IS NULL OR NOT has_table_privilege(asker, parent, 'DELETE') THEN
    RAISE EXCEPTION '% may not drop %', asker, partition USING ERRCODE = 'insufficient_privilege';
  END IF;
  EXECUTE format('DROP TABLE %s', partition);
END
$$;

DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION drop_partition(regclass) SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION ensure_month_partition(regclass, date) SECURITY DEFINER SET search_path = %I, pg_temp',
                 current_schema());
END
$$;
