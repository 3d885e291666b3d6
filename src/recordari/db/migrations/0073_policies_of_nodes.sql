-- A table that a cluster divides may have no subquery in a policy. There a function looks the row up, on the node that has both.
-- On one server a policy stays as it was: there a subquery is planned with the statement.

CREATE FUNCTION sees_item(of_tenant uuid, of_item uuid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM recordari.items i WHERE i.tenant_id = of_tenant AND i.item_id = of_item);
END $$;
CREATE FUNCTION sees_item_of_agent(of_tenant uuid, of_item uuid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM recordari.items i WHERE i.tenant_id = of_tenant AND i.item_id = of_item AND i.scope = 'agent');
END $$;
CREATE FUNCTION sees_profile(of_tenant uuid, of_profile uuid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM recordari.profiles p WHERE p.tenant_id = of_tenant AND p.profile_id = of_profile);
END $$;

-- Give the policies the form of a cluster, or that of one server. `recordari db distribute` and `undistribute` call it.
CREATE FUNCTION shape_policies(is_divided boolean) RETURNS void LANGUAGE plpgsql SET search_path = recordari, pg_temp AS $$
DECLARE
    shaped record;
    item text := CASE WHEN is_divided THEN 'recordari.sees_item(tenant_id, item_id)'
        ELSE 'EXISTS (SELECT FROM recordari.items i WHERE i.tenant_id = recordari.current_tenant() AND i.item_id = %s.item_id)' END;
    of_agent text := CASE WHEN is_divided THEN 'recordari.sees_item_of_agent(tenant_id, item_id)'
        ELSE 'EXISTS (SELECT FROM recordari.items i WHERE i.tenant_id = recordari.current_tenant()
            AND i.item_id = payloads.item_id AND i.scope = ''agent'')' END;
    profile text := CASE WHEN is_divided THEN 'recordari.sees_profile(tenant_id, profile_id)'
        ELSE 'EXISTS (SELECT FROM recordari.profiles p WHERE p.tenant_id = recordari.current_tenant()
            AND p.profile_id = profile_changes.profile_id)' END;
    -- On one server the user is named once for all rows.
    own text := CASE WHEN is_divided THEN '(%s)' ELSE '(SELECT %s)' END;
    owner text := format('(owner = ' || own || ' OR starts_with(owner, ' || own || ')
        OR (left(owner, 5) <> ''user:'' AND left(owner, 13) <> ''session:user:''))',
        '''user:'' || recordari.current_app_user()', '''session:user:'' || recordari.current_app_user() || chr(31)');
BEGIN
    FOR shaped IN
        SELECT t.name, CASE t.name
            WHEN 'payloads' THEN '(recordari.is_shown(owned_by) OR ' || of_agent || ')'
            WHEN 'profile_changes' THEN profile
            WHEN 'vectors' THEN owner WHEN 'passages' THEN owner
            ELSE replace(item, '%s', t.name) END AS condition
        FROM unnest(ARRAY['access', 'evidence', 'feedback', 'holds', 'proposal_inputs', 'payloads', 'profile_changes', 'vectors',
            'passages']) AS t (name)
    LOOP
        EXECUTE format('ALTER POLICY tenant_and_user ON recordari.%1$I USING (tenant_id = recordari.current_tenant() AND %2$s)
            WITH CHECK (tenant_id = recordari.current_tenant() AND %2$s)', shaped.name, shaped.condition);
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION shape_policies(boolean) FROM PUBLIC;
