-- The last rulings of the judge, on one page.
CREATE INDEX audit_of_rulings ON audit (tenant_id, audit_id) WHERE action = 'fact.supersede';
