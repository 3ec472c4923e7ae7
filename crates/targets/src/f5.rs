use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use http::Method;
use serde_json::{Value, json};

use crate::Authority;
use crate::server::{Answer, Asked, Service, TlsServer, json as reply, with_type};

/// Stand-in for the iControl REST API of an F5 BIG-IP, with the requests that deploy a certificate:
/// login, upload, crypto objects, a transaction, a client-ssl profile; and `/healthz`. The stand-in
/// enforces the order of the requests: installing requires the upload, using requires the
/// installation, and a transaction has no effect before its commit.
#[derive(Debug)]
pub struct F5 {
    /// URL of the target: `https://127.0.0.1:port/healthz`.
    pub url: String,
    /// Server of the target.
    pub server: TlsServer,
}

impl F5 {
    /// Name and password of the administrator.
    pub const USER: (&'static str, &'static str) = ("admin", "load-test-password");

    /// Starts the target at `port` (0 for any free port).
    ///
    /// # Errors
    /// If the port is taken.
    pub fn start(authority: &Authority, port: u16) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let tls = authority.server_config(&["localhost", "127.0.0.1"])?;
        let server = TlsServer::start(address, tls, async { Ok(Api::default()) })?;
        Ok(Self {
            url: format!("https://{}/healthz", server.address()),
            server,
        })
    }
}

/// Lifetime of a login (BIG-IP's default).
const LOGIN: Duration = Duration::from_secs(1200);
/// Prefix of an uploaded file in a request to install the file.
const UPLOADED: &str = "file:/var/config/rest/downloads/";

#[derive(Default)]
struct Api(Mutex<Device>);

/// State of the device.
#[derive(Default)]
struct Device {
    tokens: BTreeMap<String, Instant>,
    uploads: BTreeMap<String, Vec<u8>>,
    state: State,
    transactions: BTreeMap<u64, Vec<Change>>,
    next: u64,
}

/// Objects that a transaction changes atomically.
#[derive(Clone, Default)]
struct State {
    keys: BTreeSet<String>,
    certificates: BTreeSet<String>,
    profiles: BTreeMap<String, Value>,
}

#[derive(Clone)]
struct Change {
    method: Method,
    path: String,
    body: Value,
}

impl Service for Api {
    async fn answer(&self, asked: Asked) -> Answer {
        let mut device = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        device.answer(&asked)
    }
}

/// Returns an error in the format of iControl REST.
fn error(code: u16, message: impl Into<String>) -> Answer {
    reply(
        code,
        &json!({ "code": code, "message": message.into(), "errorStack": [] }),
    )
}

impl Device {
    fn answer(&mut self, asked: &Asked) -> Answer {
        let path = asked.uri.path();
        match (&asked.method, path) {
            (&Method::GET | &Method::HEAD, "/healthz") => with_type(200, "text/plain", "ok\n"),
            (&Method::POST, "/mgmt/shared/authn/login") => self.login(&asked.json()),
            _ if !self.is_logged_in(asked) => error(401, "X-F5-Auth-Token does not exist."),
            (&Method::POST, "/mgmt/tm/transaction") => self.begin(),
            (&Method::PATCH, _) if path.starts_with("/mgmt/tm/transaction/") => {
                self.commit(path, &asked.json())
            }
            (&Method::POST, _) if path.starts_with("/mgmt/shared/file-transfer/uploads/") => {
                self.upload(path, asked)
            }
            (&Method::GET, _) => self.show(path),
            _ => self.change(asked),
        }
    }

    fn login(&mut self, body: &Value) -> Answer {
        let said = (body["username"].as_str(), body["password"].as_str());
        if said != (Some(F5::USER.0), Some(F5::USER.1)) {
            return error(401, "Authentication failed.");
        }
        let now = Instant::now();
        self.tokens.retain(|_, until| *until > now);
        let mut bytes = [0; 16];
        if aws_lc_rs::rand::fill(&mut bytes).is_err() {
            return error(500, "no token");
        }
        let token = hex::encode_upper(bytes);
        self.tokens.insert(token.clone(), now + LOGIN);
        let token = json!({ "token": token, "timeout": LOGIN.as_secs(), "userName": F5::USER.0 });
        reply(200, &json!({ "username": F5::USER.0, "token": token }))
    }

    fn is_logged_in(&self, asked: &Asked) -> bool {
        let until = self.tokens.get(asked.header("x-f5-auth-token"));
        until.is_some_and(|until| *until > Instant::now())
    }

    /// Handles an upload in one or several pieces: `Content-Range: 0-99/100`.
    fn upload(&mut self, path: &str, asked: &Asked) -> Answer {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let range = asked.header("content-range");
        let parse = || -> Option<(usize, usize, usize)> {
            let (range, total) = range.split_once('/')?;
            let (first, last) = range.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()?, total.parse().ok()?))
        };
        let Some((first, last, total)) = parse() else {
            return error(
                400,
                format!("Content-Range {range:?} is not first-last/total"),
            );
        };
        let file = self.uploads.entry(name.clone()).or_default();
        if first == 0 {
            file.clear();
        }
        if file.len() != first || last + 1 != first + asked.body.len() || last >= total {
            return error(
                400,
                format!("{range} does not fit {} bytes", asked.body.len()),
            );
        }
        file.extend_from_slice(&asked.body);
        reply(
            200,
            &json!({
                "remainingByteCount": total - file.len(),
                "totalByteCount": total,
                "localFilePath": format!("/var/config/rest/downloads/{name}"),
            }),
        )
    }

    fn begin(&mut self) -> Answer {
        self.next += 1;
        self.transactions.insert(self.next, Vec::new());
        reply(200, &json!({ "transId": self.next, "state": "STARTED" }))
    }

    /// Commits all changes of a transaction, or none.
    fn commit(&mut self, path: &str, body: &Value) -> Answer {
        let id = path.rsplit('/').next().and_then(|id| id.parse().ok());
        let Some((id, changes)) = id.and_then(|id| Some((id, self.transactions.remove(&id)?)))
        else {
            return error(404, "there is no such transaction");
        };
        if body["state"] != "VALIDATING" {
            self.transactions.insert(id, changes);
            return error(400, "a transaction is committed by the state VALIDATING");
        }
        let mut state = self.state.clone();
        for change in &changes {
            if let Err((code, words)) = state.apply(change, &self.uploads) {
                return error(code, format!("transaction failed: {words}"));
            }
        }
        self.state = state;
        reply(200, &json!({ "transId": id, "state": "COMPLETED" }))
    }

    fn change(&mut self, asked: &Asked) -> Answer {
        let change = Change {
            method: asked.method.clone(),
            path: asked.uri.path().to_owned(),
            body: asked.json(),
        };
        let transaction = asked.header("x-f5-rest-coordination-id");
        if !transaction.is_empty() {
            let id = transaction.parse().ok();
            return match id.and_then(|id| self.transactions.get_mut(&id)) {
                Some(changes) => {
                    changes.push(change);
                    reply(200, &json!({ "transId": id, "commandId": changes.len() }))
                }
                None => error(404, "there is no such transaction"),
            };
        }
        match self.state.apply(&change, &self.uploads) {
            Ok(body) => reply(200, &body),
            Err((code, words)) => error(code, words),
        }
    }

    fn show(&self, path: &str) -> Answer {
        let name = path.rsplit('/').next().unwrap_or_default();
        let name = name.trim_start_matches("~Common~");
        let state = &self.state;
        let found = if path.starts_with("/mgmt/tm/ltm/profile/client-ssl/") {
            state.profiles.get(name).cloned()
        } else if path.starts_with("/mgmt/tm/sys/crypto/cert/") {
            state
                .certificates
                .get(name)
                .map(|name| json!({ "name": name }))
        } else if path.starts_with("/mgmt/tm/sys/crypto/key/") {
            state.keys.get(name).map(|name| json!({ "name": name }))
        } else {
            None
        };
        match found {
            Some(found) => reply(200, &found),
            None => error(404, format!("{path} was not found")),
        }
    }
}

impl State {
    fn apply(
        &mut self,
        change: &Change,
        uploads: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Value, (u16, String)> {
        let body = &change.body;
        match (&change.method, change.path.as_str()) {
            (&Method::POST, "/mgmt/tm/sys/crypto/cert") => {
                let name = installed(body, uploads, b"-----BEGIN CERTIFICATE-----")?;
                self.certificates.insert(name);
            }
            (&Method::POST, "/mgmt/tm/sys/crypto/key") => {
                let name = installed(body, uploads, b"PRIVATE KEY-----")?;
                self.keys.insert(name);
            }
            (&Method::POST, "/mgmt/tm/ltm/profile/client-ssl") => {
                let name = text(body, "name")?;
                if self.profiles.contains_key(&name) {
                    return Err((409, format!("the profile {name} already exists")));
                }
                self.profile(name, body)?;
            }
            (&Method::PATCH, path) if path.starts_with("/mgmt/tm/ltm/profile/client-ssl/") => {
                let name = path.rsplit('/').next().unwrap_or_default();
                let name = name.trim_start_matches("~Common~").to_owned();
                if !self.profiles.contains_key(&name) {
                    return Err((404, format!("the profile {name} was not found")));
                }
                self.profile(name, body)?;
            }
            (method, path) => return Err((404, format!("unknown request {method} {path}"))),
        }
        Ok(body.clone())
    }

    /// Sets a client-ssl profile with an installed certificate and key.
    fn profile(&mut self, name: String, body: &Value) -> Result<(), (u16, String)> {
        for (field, there) in [("cert", &self.certificates), ("key", &self.keys)] {
            let object = text(body, field)?;
            if !there.contains(object.trim_start_matches("/Common/")) {
                return Err((400, format!("the {field} {object} was not found")));
            }
        }
        self.profiles.insert(name, body.clone());
        Ok(())
    }
}

/// Checks a request to install an uploaded file, and returns the name of the new object.
fn installed(
    body: &Value,
    uploads: &BTreeMap<String, Vec<u8>>,
    armour: &[u8],
) -> Result<String, (u16, String)> {
    let (name, from) = (text(body, "name")?, text(body, "from-local-file")?);
    if body["command"] != "install" {
        return Err((400, "the command is not install".to_owned()));
    }
    let file = from
        .strip_prefix(UPLOADED)
        .or(from.strip_prefix(&UPLOADED[5..]));
    let Some(content) = file.and_then(|file| uploads.get(file)) else {
        return Err((404, format!("{from} was not uploaded")));
    };
    if content.windows(armour.len()).any(|part| part == armour) {
        Ok(name)
    } else {
        Err((
            400,
            format!("{from} does not have the installed kind of object"),
        ))
    }
}

fn text(body: &Value, field: &str) -> Result<String, (u16, String)> {
    match body[field].as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err((400, format!("{field} is missing"))),
    }
}
