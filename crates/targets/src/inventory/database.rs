use anyhow::Result;
use serde_json::{Value, json};
use sqlx::postgres::{PgPool, PgPoolOptions, PgRow};
use sqlx::{Executor, Row};

use super::certificates::{New, Page};

/// Limit of connections to PostgreSQL.
const CONNECTIONS: u32 = 16;

const SCHEMA: &str = "
    CREATE TABLE certificates (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        common_name TEXT NOT NULL,
        sans TEXT[] NOT NULL,
        issuer_id TEXT NOT NULL,
        owner_id TEXT NOT NULL,
        team_id TEXT NOT NULL,
        renewal_policy_id TEXT NOT NULL,
        environment TEXT NOT NULL,
        status TEXT NOT NULL DEFAULT 'pending'
    );
    CREATE INDEX ON certificates (team_id, issuer_id);
    CREATE TABLE renewals (
        id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        team_id TEXT NOT NULL,
        issuer_id TEXT NOT NULL,
        certificates BIGINT NOT NULL
    );
    CREATE TABLE agents (
        id TEXT PRIMARY KEY,
        version TEXT NOT NULL,
        heartbeats BIGINT NOT NULL,
        seen TIMESTAMPTZ NOT NULL DEFAULT now()
    )";

/// The inventory in PostgreSQL.
pub(super) struct Database(PgPool);

/// Result of inserting a certificate.
pub(super) enum Inserted {
    Yes(Value),
    NameTaken,
}

impl Database {
    /// Opens the empty database at this URL, and creates its tables.
    pub(super) async fn open(url: &str) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS);
        let pool = pool.connect(url).await?;
        pool.execute(SCHEMA).await?;
        Ok(Self(pool))
    }

    pub(super) async fn insert(&self, new: &New) -> Result<Inserted, sqlx::Error> {
        let inserted = sqlx::query(
            "INSERT INTO certificates (name, common_name, sans, issuer_id, owner_id, team_id, \
             renewal_policy_id, environment) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
             ON CONFLICT (name) DO NOTHING RETURNING *",
        )
        .bind(&new.name)
        .bind(&new.common_name)
        .bind(&new.sans)
        .bind(&new.issuer_id)
        .bind(&new.owner_id)
        .bind(&new.team_id)
        .bind(&new.renewal_policy_id)
        .bind(&new.environment)
        .fetch_optional(&self.0)
        .await?;
        Ok(match inserted {
            Some(row) => Inserted::Yes(certificate(&row)?),
            None => Inserted::NameTaken,
        })
    }

    pub(super) async fn one(&self, id: &str) -> Result<Option<Value>, sqlx::Error> {
        let Some(number) = id.strip_prefix("mc-").and_then(|id| id.parse::<i64>().ok()) else {
            return Ok(None);
        };
        let row = sqlx::query("SELECT * FROM certificates WHERE id = $1")
            .bind(number)
            .fetch_optional(&self.0)
            .await?;
        row.map(|row| certificate(&row)).transpose()
    }

    /// Returns the number of all certificates, and the certificates of a page, the newest first.
    pub(super) async fn page(&self, page: Page) -> Result<(i64, Vec<Value>), sqlx::Error> {
        let total = sqlx::query("SELECT count(*) FROM certificates");
        let total = total.fetch_one(&self.0).await?.try_get(0)?;
        let skipped = i64::from(page.number - 1) * i64::from(page.size);
        let rows = sqlx::query("SELECT * FROM certificates ORDER BY id DESC LIMIT $1 OFFSET $2")
            .bind(i64::from(page.size))
            .bind(skipped)
            .fetch_all(&self.0)
            .await?;
        let rows: Result<_, _> = rows.iter().map(certificate).collect();
        Ok((total, rows?))
    }

    /// Renews all certificates of a team and an issuer. Returns the number of the job, and of the
    /// certificates.
    pub(super) async fn renew(&self, team: &str, issuer: &str) -> Result<(i64, i64), sqlx::Error> {
        let row = sqlx::query(
            "INSERT INTO renewals (team_id, issuer_id, certificates) \
             SELECT $1, $2, count(*) FROM certificates WHERE team_id = $1 AND issuer_id = $2 \
             RETURNING id, certificates",
        )
        .bind(team)
        .bind(issuer)
        .fetch_one(&self.0)
        .await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    /// Records a heartbeat of an agent. Returns the number of its heartbeats.
    pub(super) async fn heartbeat(&self, agent: &str, version: &str) -> Result<i64, sqlx::Error> {
        let row = sqlx::query(
            "INSERT INTO agents (id, version, heartbeats) VALUES ($1, $2, 1) \
             ON CONFLICT (id) DO UPDATE SET version = $2, seen = now(), \
             heartbeats = agents.heartbeats + 1 RETURNING heartbeats",
        )
        .bind(agent)
        .bind(version)
        .fetch_one(&self.0)
        .await?;
        row.try_get(0)
    }
}

fn certificate(row: &PgRow) -> Result<Value, sqlx::Error> {
    let text = |column: &str| row.try_get::<String, _>(column);
    Ok(json!({
        "id": format!("mc-{}", row.try_get::<i64, _>("id")?),
        "name": text("name")?,
        "common_name": text("common_name")?,
        "sans": row.try_get::<Vec<String>, _>("sans")?,
        "issuer_id": text("issuer_id")?,
        "owner_id": text("owner_id")?,
        "team_id": text("team_id")?,
        "renewal_policy_id": text("renewal_policy_id")?,
        "environment": text("environment")?,
        "status": text("status")?,
    }))
}
