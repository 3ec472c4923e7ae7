use std::{
    fmt,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use anyhow::Result;
use bytes::Bytes;
use http::{Request, Response};

use crate::service::{Service, Upstream, xml_error};

/// The treatment of a request to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The proxy forwards the request.
    Pass,
    /// The proxy forwards the request after this delay.
    Delay(Duration),
    /// The proxy responds with this status and a request to slow down. The store never gets the
    /// request.
    Status(u16),
    /// The proxy responds with 403 and this code of S3. The store never gets the request.
    Refuse(&'static str),
    /// The proxy never responds, and the store never gets the request.
    Hang,
    /// The proxy never responds, and forwards the request when [`StoreProxy::release`] is called.
    Withhold,
    /// The proxy removes this header, as if the store did not support it.
    Unconditional(&'static str),
    /// The proxy removes this header from the response.
    WithoutHeader(&'static str),
    /// The store processes the request, and the proxy closes the connection without forwarding the
    /// response.
    LoseAnswer,
    /// The store processes the request, and the proxy never forwards the response.
    HoldAnswer,
    /// The proxy forwards half of the body as a complete response.
    HalveAnswer,
    /// The proxy flips the bit with this number in the body, modulo the length of the body.
    FlipAnswer(usize),
}

type Judge = dyn Fn(&Request<Bytes>) -> Fate + Send + Sync;

/// A proxy in front of an object store that simulates faults of networks and overloaded servers.
/// The proxy ends with the value.
#[derive(Debug)]
pub struct StoreProxy {
    /// `http://127.0.0.1:port`, to be used in place of the store's endpoint.
    pub endpoint: String,
    state: Arc<State>,
    _service: Service,
}

struct State {
    store: Upstream,
    judge: Mutex<Arc<Judge>>,
    seen: AtomicU64,
    struck: AtomicU64,
    withheld: Mutex<Vec<Request<Bytes>>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} requests", self.seen.load(SeqCst))
    }
}

impl StoreProxy {
    /// Starts a proxy in front of the store at this address. Initially all requests pass.
    ///
    /// # Errors
    /// Only if the system provides no socket.
    pub fn start(store: SocketAddr) -> Result<Self> {
        let state = Arc::new(State {
            store: Upstream::new(store),
            judge: Mutex::new(Arc::new(|_: &Request<Bytes>| Fate::Pass)),
            seen: AtomicU64::new(0),
            struck: AtomicU64::new(0),
            withheld: Mutex::default(),
        });
        let judging = state.clone();
        let service = Service::start(move |request| {
            let fate = judging.fate(&request);
            let state = judging.clone();
            async move { state.suffer(request, fate).await }
        })?;
        Ok(Self {
            endpoint: format!("http://{}", service.address),
            state,
            _service: service,
        })
    }

    /// Sets the function that selects the treatment of each request.
    pub fn judge(&self, judge: impl Fn(&Request<Bytes>) -> Fate + Send + Sync + 'static) {
        let judging = self.state.judge.lock();
        *judging.unwrap_or_else(PoisonError::into_inner) = Arc::new(judge);
    }

    /// Applies `fate` to the next `count` requests of this method, and forwards all other requests.
    pub fn strike(&self, method: &'static str, count: u64, fate: Fate) {
        let left = AtomicU64::new(count);
        self.judge(move |request| {
            let mine = request.method() == method;
            let take = |left: u64| left.checked_sub(1);
            if mine && left.fetch_update(SeqCst, SeqCst, take).is_ok() {
                fate
            } else {
                Fate::Pass
            }
        });
    }

    /// Forwards all withheld requests one by one, and returns their number.
    pub async fn release(&self) -> usize {
        let withheld = self.state.withheld.lock();
        let withheld = std::mem::take(&mut *withheld.unwrap_or_else(PoisonError::into_inner));
        let count = withheld.len();
        for request in withheld {
            // The client no longer waits for the response.
            let _ = self.state.store.pass(request).await;
        }
        count
    }

    /// Returns the number of requests so far.
    pub fn seen(&self) -> u64 {
        self.state.seen.load(SeqCst)
    }

    /// Returns the number of requests that were not simply forwarded.
    pub fn struck(&self) -> u64 {
        self.state.struck.load(SeqCst)
    }
}

impl State {
    fn fate(&self, request: &Request<Bytes>) -> Fate {
        let judge = self.judge.lock();
        let judge = judge.unwrap_or_else(PoisonError::into_inner).clone();
        let fate = judge(request);
        self.seen.fetch_add(1, SeqCst);
        if fate != Fate::Pass {
            self.struck.fetch_add(1, SeqCst);
        }
        fate
    }

    async fn suffer(&self, mut request: Request<Bytes>, fate: Fate) -> Option<Response<Bytes>> {
        match fate {
            Fate::Pass => self.store.pass(request).await,
            Fate::Delay(by) => {
                // Simulates a distant store: the request arrives at least this much later.
                tokio::time::sleep(by).await;
                self.store.pass(request).await
            }
            Fate::Status(status) => xml_error(status, "SlowDown", "Reduce your rate."),
            Fate::Refuse(code) => xml_error(403, code, "The request was refused."),
            Fate::Hang => std::future::pending().await,
            Fate::Withhold => {
                let withheld = self.withheld.lock();
                withheld
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(request);
                std::future::pending().await
            }
            Fate::Unconditional(header) => {
                request.headers_mut().remove(header);
                self.store.pass(request).await
            }
            Fate::WithoutHeader(header) => {
                let mut answer = self.store.pass(request).await?;
                answer.headers_mut().remove(header);
                Some(answer)
            }
            Fate::LoseAnswer => {
                self.store.pass(request).await?;
                None
            }
            Fate::HoldAnswer => {
                self.store.pass(request).await?;
                std::future::pending().await
            }
            Fate::HalveAnswer => {
                let answer = self.store.pass(request).await?;
                Some(altered(answer, |body| body.truncate(body.len() / 2)))
            }
            Fate::FlipAnswer(bit) => {
                let answer = self.store.pass(request).await?;
                let flip = |body: &mut Vec<u8>| {
                    let bit = bit % (body.len() * 8).max(1);
                    if let Some(byte) = body.get_mut(bit / 8) {
                        *byte ^= 1 << (bit % 8);
                    }
                };
                Some(altered(answer, flip))
            }
        }
    }
}

/// Returns the response with an altered body, and without the old Content-Length.
fn altered(answer: Response<Bytes>, alter: impl FnOnce(&mut Vec<u8>)) -> Response<Bytes> {
    let (mut head, body) = answer.into_parts();
    let mut body = body.to_vec();
    alter(&mut body);
    head.headers.remove(http::header::CONTENT_LENGTH);
    Response::from_parts(head, body.into())
}
