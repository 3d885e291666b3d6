-- What is said in a user's session is that user's, like the session itself: who only knows the session's id sees nothing of it.
-- Vectors keep their policy, which an index alone can tell: nothing is shown of a vector but through its item.
DROP POLICY tenant_and_user ON items;
CREATE POLICY tenant_and_user ON items TO recordari_app, recordari_readonly
    USING (tenant_id = current_tenant() AND (scope NOT IN ('user', 'session') OR current_app_user() IS NULL
        OR user_id = current_app_user() OR (scope = 'session' AND user_id IS NULL)))
    WITH CHECK (tenant_id = current_tenant() AND (scope NOT IN ('user', 'session') OR current_app_user() IS NULL
        OR user_id = current_app_user() OR (scope = 'session' AND user_id IS NULL)));
