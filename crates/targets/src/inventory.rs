//! A certificate inventory API on PostgreSQL.

mod certificates;
mod database;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use http::{HeaderValue, Method, header};
use lucarne_testkit::{DatabaseKind, DatabaseServer};
use serde_json::{Value, json};

use crate::Authority;
use crate::server::{Answer, Asked, Service, TlsServer, json as reply, with_type};
use certificates::{New, Page};
use database::{Database, Inserted};

/// A certificate inventory: the certificates of a fleet, and the agents that renew them. The data
/// of the inventory is in a separate PostgreSQL server.
///
/// | request | response |
/// |---|---|
/// | POST `/api/v1/certificates` | 201; 400 with the errors by field; 409 |
/// | GET `/api/v1/certificates?page=1&per_page=50` | 200 with an ETag, or 304 |
/// | GET `/api/v1/certificates/{id}` | 200, 404 |
/// | POST `/api/v1/certificates/bulk-renew` | 202 |
/// | POST `/api/v1/agents/{id}/heartbeat` | 200; 404 except for its 5,000 agents |
/// | GET `/healthz` | 200, without a token |
#[derive(Debug)]
pub struct Inventory {
    /// URL of the inventory: `https://127.0.0.1:port`.
    pub url: String,
    server: TlsServer,
    /// PostgreSQL server with the data; dropped after the server.
    pub database: Arc<DatabaseServer>,
}

impl Inventory {
    /// Token of every request.
    pub const TOKEN: &'static str = "load-test-token";

    /// Starts the inventory at `port` (0 for any free port) with a new database.
    ///
    /// # Errors
    /// If PostgreSQL is not installed or does not start, or the port is taken.
    pub fn start(authority: &Authority, port: u16) -> Result<Self> {
        let database = DatabaseServer::shared(DatabaseKind::Postgres)?;
        let url = database.url(&database.new_database()?);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let tls = authority.server_config(&["localhost", "127.0.0.1"])?;
        let make = async move {
            let database = Database::open(&url).await?;
            Ok(Api { database })
        };
        let server = TlsServer::start(address, tls, make)?;
        Ok(Self {
            url: format!("https://{}", server.address()),
            server,
            database,
        })
    }

    /// Returns the listen address.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

struct Api {
    database: Database,
}

fn error(status: u16, code: &str, message: impl Into<String>) -> Answer {
    reply(
        status,
        &json!({ "error": { "code": code, "message": message.into() } }),
    )
}

impl Service for Api {
    async fn answer(&self, asked: Asked) -> Answer {
        let path = asked.uri.path().to_owned();
        if path == "/healthz" {
            return with_type(200, "text/plain", "ok\n");
        }
        if asked.header("authorization") != format!("Bearer {}", Inventory::TOKEN) {
            let mut answer = error(401, "unauthorized", "a valid Bearer token is missing");
            let challenge = HeaderValue::from_static("Bearer");
            answer
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
            return answer;
        }
        let outcome = self.route(&asked, &path).await;
        outcome.unwrap_or_else(|failed| error(500, "database", failed.to_string()))
    }
}

impl Api {
    async fn route(&self, asked: &Asked, path: &str) -> Result<Answer, sqlx::Error> {
        let Some(rest) = path.strip_prefix("/api/v1/") else {
            return Ok(error(
                404,
                "not_found",
                format!("the path {path} is unknown"),
            ));
        };
        let parts: Vec<&str> = rest.split('/').collect();
        match (&asked.method, &parts[..]) {
            (&Method::POST, ["certificates"]) => self.create(asked).await,
            (&Method::GET, ["certificates"]) => self.list(asked).await,
            (&Method::POST, ["certificates", "bulk-renew"]) => self.bulk_renew(asked).await,
            (&Method::GET, ["certificates", id]) => self.show(id).await,
            (&Method::POST, ["agents", id, "heartbeat"]) => self.heartbeat(id, asked).await,
            (_, ["certificates"] | ["certificates", _] | ["agents", _, "heartbeat"]) => Ok(error(
                405,
                "method_not_allowed",
                format!("{} is not for {path}", asked.method),
            )),
            _ => Ok(error(
                404,
                "not_found",
                format!("the path {path} is unknown"),
            )),
        }
    }

    async fn create(&self, asked: &Asked) -> Result<Answer, sqlx::Error> {
        let new = match New::read(&asked.body) {
            Ok(new) => new,
            Err(fields) => return Ok(invalid(&fields)),
        };
        match self.database.insert(&new).await? {
            Inserted::Yes(certificate) => {
                let location = format!("/api/v1/certificates/{}", text(&certificate["id"]));
                let mut answer = reply(201, &certificate);
                if let Ok(location) = location.parse() {
                    answer.headers_mut().insert(header::LOCATION, location);
                }
                Ok(answer)
            }
            Inserted::NameTaken => {
                let words = format!("there is a certificate `{}` already", new.name);
                Ok(error(409, "conflict", words))
            }
        }
    }

    async fn show(&self, id: &str) -> Result<Answer, sqlx::Error> {
        Ok(match self.database.one(id).await? {
            Some(certificate) => reply(200, &certificate),
            None => error(404, "not_found", format!("there is no certificate `{id}`")),
        })
    }

    async fn list(&self, asked: &Asked) -> Result<Answer, sqlx::Error> {
        let page = match Page::read(asked.uri.query().unwrap_or_default()) {
            Ok(page) => page,
            Err(fields) => return Ok(invalid(&fields)),
        };
        let (total, data) = self.database.page(page).await?;
        let body = json!({
            "data": data,
            "total": total,
            "page": page.number,
            "per_page": page.size,
        });
        let body = body.to_string();
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, body.as_bytes());
        let tag = format!("\"{}\"", hex::encode(&digest.as_ref()[..16]));
        let mut answer = if asked.header("if-none-match") == tag {
            with_type(304, "application/json", "")
        } else {
            with_type(200, "application/json", body)
        };
        if let Ok(tag) = tag.parse() {
            answer.headers_mut().insert(header::ETAG, tag);
        }
        Ok(answer)
    }

    async fn bulk_renew(&self, asked: &Asked) -> Result<Answer, sqlx::Error> {
        let body = asked.json();
        let (team, issuer) = (&body["team_id"], &body["issuer_id"]);
        let missing: Vec<_> = [("team_id", team), ("issuer_id", issuer)]
            .into_iter()
            .filter(|(_, value)| text(value).is_empty())
            .map(|(field, _)| (field, "is missing".to_owned()))
            .collect();
        if !missing.is_empty() {
            return Ok(invalid(&missing));
        }
        let (job, count) = self.database.renew(text(team), text(issuer)).await?;
        Ok(reply(
            202,
            &json!({ "job_id": format!("job-{job}"), "total_enqueued": count }),
        ))
    }

    async fn heartbeat(&self, id: &str, asked: &Asked) -> Result<Answer, sqlx::Error> {
        if !is_agent(id) {
            return Ok(error(404, "not_found", format!("there is no agent `{id}`")));
        }
        let version = asked.json()["version"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let beats = self.database.heartbeat(id, &version).await?;
        Ok(reply(
            200,
            &json!({ "status": "ok", "agent_id": id, "heartbeats": beats }),
        ))
    }
}

/// Returns whether the agent exists: as in certctl's load tests, there are 5,000, from
/// `ag-loadtest-00001` on.
fn is_agent(id: &str) -> bool {
    let number = id
        .strip_prefix("ag-loadtest-")
        .filter(|number| number.len() == 5);
    number.is_some_and(|number| {
        number
            .parse()
            .is_ok_and(|number| (1..=5000).contains(&number))
    })
}

/// Errors by field.
type Wrong = [(&'static str, String)];

fn invalid(fields: &Wrong) -> Answer {
    let fields: Vec<_> = fields
        .iter()
        .map(|(field, message)| json!({ "field": field, "message": message }))
        .collect();
    let error =
        json!({ "code": "validation", "message": "the request is not valid", "fields": fields });
    reply(400, &json!({ "error": error }))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
