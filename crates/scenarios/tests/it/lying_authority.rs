//! An ACME server with at most one fault.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64_simd::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lucarne_mint::der::{DerError, Reader};
use lucarne_mint::testing::Pki;
use lucarne_mint::{LeafOptions, Time, pem};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::hostile::Hostile;

/// Fault of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    None,
    /// Accepts every challenge without a request to the client.
    ValidatesNothing,
    /// Creates orders that are ready, with valid authorizations.
    ValidAtOnce,
    /// Creates orders that are ready, with pending authorizations.
    ReadyAtOnce,
    OtherIdentifier,
    MoreIdentifiers,
    OtherAuthorization,
    LosesReplaces,
    Expired,
    NeverExpires,
    /// Serves orders as HTML.
    Html,
    LeafTwice,
    ForeignKeyChange,
    ForeignNewOrder,
    /// Is slow: an order becomes ready, and later valid, at the third poll. Each wait is a second.
    Slow,
}

/// The wait that a slow server requests.
const WAIT: Duration = Duration::from_secs(1);
/// Number of polls in which an object of a slow server is unfinished.
const UNFINISHED: u32 = 2;

struct Order {
    identifiers: Value,
    replaces: Value,
    token: String,
    /// Status of the authorization.
    authorization: &'static str,
    status: &'static str,
    /// Polls since the last change.
    polls: u32,
    /// End of the wait that the server has requested.
    not_before: Instant,
    chain: String,
}

struct State {
    lie: Lie,
    address: SocketAddr,
    /// Address of the client's responder.
    responder: SocketAddr,
    nonces: AtomicU64,
    orders: Mutex<HashMap<u64, Order>>,
    /// Violations by the client.
    violations: Mutex<Vec<String>>,
}

pub(crate) struct LyingAuthority {
    state: Arc<State>,
    _server: Hostile,
}

impl LyingAuthority {
    pub(crate) fn start(lie: Lie) -> Self {
        let responder = ([127, 0, 0, 1], lucarne_testkit::free_port()).into();
        let state: Arc<std::sync::OnceLock<Arc<State>>> = Arc::default();
        let shared = state.clone();
        let server = Hostile::start(move |stream| connection(stream, shared.clone()));
        let state = state.get_or_init(|| {
            Arc::new(State {
                lie,
                address: server.address,
                responder,
                nonces: AtomicU64::new(0),
                orders: Mutex::default(),
                violations: Mutex::default(),
            })
        });
        Self {
            state: state.clone(),
            _server: server,
        }
    }

    /// Returns the violations by the client, and whether all of the orders are valid.
    pub(crate) fn seen(&self, orders: usize) -> (Vec<String>, bool) {
        let found = self.state.orders.lock().unwrap();
        let valid = found.len() == orders && found.values().all(|it| it.status == "valid");
        (self.state.violations.lock().unwrap().clone(), valid)
    }

    pub(crate) fn options(&self) -> Value {
        json!({
            "directory": format!("http://{}/directory", self.state.address),
            "flow": "enrol",
            "until": "renewal",
            "think": "0s",
            "poll": "10ms",
            "http01Listen": self.state.responder.to_string(),
        })
    }
}

async fn connection(stream: TcpStream, state: Arc<std::sync::OnceLock<Arc<State>>>) -> Option<()> {
    // Requests begin after `start` has set the state.
    let state = state.get()?.clone();
    let service = service_fn(move |request| {
        let state = state.clone();
        async move { Ok::<_, std::convert::Infallible>(state.respond(request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new();
    let connection = connection.serve_connection(TokioIo::new(stream), service);
    connection.await.ok()
}

impl State {
    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().trim_start_matches('/').to_owned();
        let is_post = request.method() == Method::POST;
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let payload = if is_post { payload(&body) } else { Value::Null };
        let (step, number) = path.split_once('/').unwrap_or((&path, ""));
        let number = number.parse().unwrap_or_default();
        let mut response = match step {
            "directory" => whole(200, &self.directory()),
            "account" => located(self.url("account/1"), &json!({ "status": "valid" })),
            "new-order" => self.new_order(&payload),
            "challenge" => {
                self.validate(number).await;
                whole(200, &self.challenge(number))
            }
            "authorization" => whole(200, &self.authorization(number)),
            "order" => self.poll(number),
            "finalize" => self.finalize(number, &payload),
            "certificate" => self.certificate(number),
            "ari" => renewal_info(),
            _ => whole(200, &Value::Null),
        };
        let nonce = self.nonces.fetch_add(1, Ordering::Relaxed);
        let nonce = HeaderValue::from_str(&format!("nonce{nonce}")).unwrap();
        response.headers_mut().insert("replay-nonce", nonce);
        response
    }

    fn directory(&self) -> Value {
        let elsewhere = |lie, path| {
            if self.lie == lie {
                "https://elsewhere.example/".to_owned()
            } else {
                self.url(path)
            }
        };
        json!({
            "newNonce": self.url("nonce"), "newAccount": self.url("account"),
            "newOrder": elsewhere(Lie::ForeignNewOrder, "new-order"),
            "revokeCert": self.url("revoke"), "renewalInfo": self.url("ari"),
            "keyChange": elsewhere(Lie::ForeignKeyChange, "key"),
        })
    }

    fn new_order(&self, payload: &Value) -> Response<Full<Bytes>> {
        let mut orders = self.orders.lock().unwrap();
        let number = orders.len() as u64 + 1;
        let (authorization, status) = match self.lie {
            Lie::ValidAtOnce => ("valid", "ready"),
            Lie::ReadyAtOnce => ("pending", "ready"),
            _ => ("pending", "pending"),
        };
        let order = Order {
            identifiers: payload["identifiers"].clone(),
            replaces: payload["replaces"].clone(),
            token: format!("token{number}"),
            authorization,
            status,
            polls: 0,
            not_before: Instant::now(),
            chain: String::new(),
        };
        let response = located(
            self.url(&format!("order/{number}")),
            &self.show(number, &order),
        );
        orders.insert(number, order);
        self.typed(response)
    }

    /// Returns the order as the server shows it.
    fn show(&self, number: u64, order: &Order) -> Value {
        let mut shown = json!({
            "status": order.status, "identifiers": order.identifiers,
            "authorizations": [self.url(&format!("authorization/{number}"))],
            "finalize": self.url(&format!("finalize/{number}")),
            "replaces": order.replaces, "expires": expiry(self.lie != Lie::Expired),
        });
        let other = json!({ "type": "dns", "value": "other.test" });
        match self.lie {
            Lie::OtherIdentifier => shown["identifiers"] = json!([other]),
            Lie::MoreIdentifiers => shown["identifiers"].as_array_mut().unwrap().push(other),
            Lie::LosesReplaces => shown["replaces"] = Value::Null,
            Lie::NeverExpires => shown["expires"] = Value::Null,
            _ => {}
        }
        if order.status == "valid" {
            shown["certificate"] = self.url(&format!("certificate/{number}")).into();
        }
        shown
    }

    fn typed(&self, mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
        if self.lie == Lie::Html {
            let html = HeaderValue::from_static("text/html");
            response.headers_mut().insert(header::CONTENT_TYPE, html);
        }
        response
    }

    fn challenge(&self, number: u64) -> Value {
        let token = self.orders.lock().unwrap()[&number].token.clone();
        let url = self.url(&format!("challenge/{number}"));
        json!({ "type": "http-01", "url": url, "token": token })
    }

    fn authorization(&self, number: u64) -> Value {
        let challenge = self.challenge(number);
        let order = &self.orders.lock().unwrap()[&number];
        let mut identifier = order.identifiers[0].clone();
        if self.lie == Lie::OtherAuthorization {
            identifier["value"] = "other.test".into();
        }
        json!({
            "status": order.authorization, "identifier": identifier,
            "challenges": [challenge], "expires": expiry(true),
        })
    }

    /// Validates the challenge of an order with http-01.
    async fn validate(&self, number: u64) {
        let token = self.orders.lock().unwrap()[&number].token.clone();
        let found = match self.lie {
            Lie::ValidatesNothing => Some(String::new()),
            _ => requested(self.responder, &token).await,
        };
        let mut orders = self.orders.lock().unwrap();
        let order = orders.get_mut(&number).unwrap();
        let valid = found.is_some_and(|it| it.contains(&format!("{token}.")) || it.is_empty());
        (order.authorization, order.status) = match (valid, self.lie) {
            (true, Lie::Slow) => ("valid", "pending"),
            (true, _) => ("valid", "ready"),
            (false, _) => ("invalid", "invalid"),
        };
    }

    /// Responds to a poll of an order.
    fn poll(&self, number: u64) -> Response<Full<Bytes>> {
        let mut orders = self.orders.lock().unwrap();
        let order = orders.get_mut(&number).unwrap();
        if Instant::now() < order.not_before {
            self.violation("an order was polled before the end of Retry-After");
        }
        order.polls += 1;
        if order.polls > UNFINISHED {
            (order.status, order.polls) = match order.status {
                "pending" => ("ready", 0),
                "processing" => ("valid", 0),
                other => (other, order.polls),
            };
        }
        self.later(number, order)
    }

    /// Returns an order, with a wait before the next poll if a slow server has not finished it.
    fn later(&self, number: u64, order: &mut Order) -> Response<Full<Bytes>> {
        let mut response = self.typed(whole(200, &self.show(number, order)));
        if self.lie == Lie::Slow && matches!(order.status, "pending" | "processing") {
            order.not_before = Instant::now() + WAIT;
            let wait = HeaderValue::from(WAIT.as_secs());
            response.headers_mut().insert(header::RETRY_AFTER, wait);
        }
        response
    }

    fn finalize(&self, number: u64, payload: &Value) -> Response<Full<Bytes>> {
        let mut orders = self.orders.lock().unwrap();
        let order = orders.get_mut(&number).unwrap();
        if order.status != "ready" {
            self.violation("an order was finalized before it was ready");
        }
        let names = order.identifiers.as_array().unwrap().iter();
        let names = names.map(|it| it["value"].as_str().unwrap());
        let csr = URL_SAFE_NO_PAD.decode_to_vec(payload["csr"].as_str().unwrap());
        order.chain = self.issue(names, &csr.unwrap());
        (order.status, order.polls) = match self.lie {
            Lie::Slow => ("processing", 0),
            _ => ("valid", 0),
        };
        self.later(number, order)
    }

    fn issue<'n>(&self, names: impl Iterator<Item = &'n str>, csr: &[u8]) -> String {
        let ca = &Pki::shared().p256;
        let options = LeafOptions::for_names(names).unwrap();
        let mut template = ca.leaf_template(&options).unwrap();
        template.spki = spki(csr).unwrap().to_vec();
        let chain = ca.chain(ca.sign(&template).unwrap());
        let mut chain = chain.certificates().to_vec();
        if self.lie == Lie::LeafTwice {
            chain.insert(1, chain[0].clone());
        }
        let chain = chain.iter().map(|der| pem::encode("CERTIFICATE", der));
        chain.collect()
    }

    fn certificate(&self, number: u64) -> Response<Full<Bytes>> {
        let chain = self.orders.lock().unwrap()[&number].chain.clone();
        let mut response = Response::new(Full::new(chain.into()));
        let kind = HeaderValue::from_static("application/pem-certificate-chain");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }

    fn violation(&self, words: &str) {
        self.violations.lock().unwrap().push(words.to_owned());
    }
}

/// Requests the response to a challenge from the client.
async fn requested(responder: SocketAddr, token: &str) -> Option<String> {
    let mut stream = TcpStream::connect(responder).await.ok()?;
    let request =
        format!("GET /.well-known/acme-challenge/{token} HTTP/1.1\r\nhost: name.test\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await.ok()?;
    Some(response)
}

/// Returns the payload of a signed request, or null for a POST-as-GET.
fn payload(body: &[u8]) -> Value {
    let jws: Value = serde_json::from_slice(body).unwrap();
    let payload = URL_SAFE_NO_PAD.decode_to_vec(jws["payload"].as_str().unwrap());
    serde_json::from_slice(&payload.unwrap()).unwrap_or_default()
}

/// Returns the public key of a certification request (RFC 2986, section 4.1).
fn spki(csr: &[u8]) -> Result<&[u8], DerError> {
    let mut csr = Reader::new(csr).any("CertificationRequest")?.reader();
    let mut info = csr.any("certificationRequestInfo")?.reader();
    info.any("version")?;
    info.any("subject")?;
    Ok(info.any("subjectPKInfo")?.raw)
}

/// Returns a time in a day, or a day ago.
fn expiry(future: bool) -> String {
    let days = if future { 1 } else { -1 };
    let seconds = Time::now().plus_days(days).unix();
    lucarne_settings::values::rfc3339(u64::try_from(seconds).unwrap() * 1000)
}

fn renewal_info() -> Response<Full<Bytes>> {
    let window = json!({ "start": expiry(false), "end": expiry(true) });
    let mut response = whole(200, &json!({ "suggestedWindow": window }));
    let wait = HeaderValue::from_static("3600");
    response.headers_mut().insert(header::RETRY_AFTER, wait);
    response
}

fn whole(status: u16, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.to_string().into()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Returns a response with a new object at this URL.
fn located(url: String, body: &Value) -> Response<Full<Bytes>> {
    let mut response = whole(201, body);
    let url = HeaderValue::from_str(&url).unwrap();
    response.headers_mut().insert(header::LOCATION, url);
    response
}
