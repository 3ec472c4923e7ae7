//! Redirects of responses (RFC 9110, section 15.4), and the servers that only redirects name.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use lucarne_load::http::{self as client, Body, Client, ClientOptions, Endpoint, Response, kind};
use lucarne_load::{Failure, Iteration, Tags};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use url::{Position, Url};

use super::request::Request;
use super::user::RestUser;

/// Limit of the servers that only redirects name.
const MOST_SERVERS: usize = 256;

/// Servers that only redirects name, which all users share. Each server is resolved once, also if
/// that fails.
#[derive(Debug, Default)]
pub(super) struct RedirectServers(Mutex<BTreeMap<String, Arc<OnceCell<Resolved>>>>);

/// A server, or the reason why it cannot be used.
type Resolved = Result<Arc<Endpoint>, String>;

impl RedirectServers {
    /// Returns the server with this origin.
    async fn endpoint(&self, origin: &str, options: &ClientOptions) -> Resolved {
        let server = {
            let mut known = self.0.lock();
            if known.len() >= MOST_SERVERS && !known.contains_key(origin) {
                return Err(format!("more than {MOST_SERVERS} other servers"));
            }
            known.entry(origin.to_owned()).or_default().clone()
        };
        let resolve = || resolve(origin, options);
        server.get_or_init(resolve).await.clone()
    }
}

async fn resolve(origin: &str, options: &ClientOptions) -> Resolved {
    let limit = options.timeout;
    match tokio::time::timeout(limit, Endpoint::resolve(origin, options)).await {
        Ok(resolved) => resolved.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no address within {:.1} s", limit.as_secs_f64())),
    }
}

impl RestUser {
    /// Follows the redirects of a response. Each response before the last is recorded as a request
    /// of the iteration, if there is one.
    pub(super) async fn follow(
        &mut self,
        request: &Request,
        mut response: Response,
        mut load: Option<(&mut Iteration, Tags)>,
    ) -> Response {
        let first = self.url(request);
        let (mut url, mut method) = (first.clone(), request.method.clone());
        let mut with_body = true;
        for _ in 0..request.redirects {
            let Some(target) = target(&url, &response) else {
                break;
            };
            let reached = self.server_of(&target);
            let reached = match &load {
                Some((iteration, tags)) => {
                    let protocol = response.exchange.protocol;
                    iteration.pending(*tags, protocol).until(reached).await
                }
                None => reached.await,
            };
            let server = match reached {
                Ok(server) => server,
                Err(failure) => {
                    response.exchange.outcome = Err(failure);
                    break;
                }
            };
            if let Some((iteration, tags)) = &mut load {
                iteration.request(*tags, &response.exchange);
            }
            if !keeps_method(response.status, &method) {
                (method, with_body) = (Method::GET, false);
            }
            url = target;
            let same_origin = url.origin() == first.origin();
            let next = self.hop(request, server, &url, &method, with_body, same_origin);
            response = match &mut load {
                Some((iteration, tags)) => {
                    let protocol = response.exchange.protocol;
                    iteration.pending(*tags, protocol).until(next).await
                }
                None => next.await,
            };
            self.store_cookies(&url, &response);
        }
        response
    }

    /// Sends the request of a redirect.
    async fn hop(
        &mut self,
        request: &Request,
        server: usize,
        url: &Url,
        method: &Method,
        with_body: bool,
        same_origin: bool,
    ) -> Response {
        self.choose_cookies(url);
        // Credentials belong to the first server.
        let secret = ["authorization", "cookie", "host", "proxy-authorization"];
        let of_body = ["content-type", "content-encoding", "content-language"];
        let is = |names: &[&str], name: &str| names.iter().any(|it| it.eq_ignore_ascii_case(name));
        let headers = self.written.headers(request, |name| {
            (same_origin || !is(&secret, name)) && (with_body || !is(&of_body, name))
        });
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let ask = client::Request::new(method, path).headers(&headers);
        let ask = match self.written.body(request).filter(|_| with_body) {
            Some(body) => ask.body(Body::One(body)),
            None => ask,
        };
        let ask = ask.keep(request.kept_body());
        self.clients[server].send(&ask).await
    }

    /// Returns the index of the client for a URL, and creates it for a new server.
    async fn server_of(&mut self, url: &Url) -> Result<usize, Failure> {
        let origin = &url[..Position::BeforePath];
        let known = self.shared.servers.iter().chain(&self.other_servers);
        if let Some(index) = known.into_iter().position(|server| server == origin) {
            return Ok(index);
        }
        let failed =
            |why: String| Failure::new(kind::CONNECT, format!("redirect to {origin}: {why}"));
        let options: Arc<_> = self.shared.options.clone();
        let endpoint = self.shared.redirect_servers.endpoint(origin, &options);
        let endpoint = endpoint.await.map_err(failed)?;
        self.other_servers.push(origin.to_owned());
        self.clients.push(Client::new(endpoint, options));
        Ok(self.clients.len() - 1)
    }
}

/// Returns whether the next request has the same method and body.
fn keeps_method(status: u16, method: &Method) -> bool {
    match status {
        307 | 308 => true,
        303 => *method == Method::HEAD,
        // Section 15.4.2: browsers change POST to GET.
        _ => *method != Method::POST,
    }
}

/// Returns the URL to which a response redirects.
fn target(url: &Url, response: &Response) -> Option<Url> {
    let redirects =
        response.exchange.outcome.is_ok() && matches!(response.status, 301 | 302 | 303 | 307 | 308);
    let location = redirects.then(|| response.headers.get("location"))??;
    let mut target = url.join(location).ok()?;
    // Requests do not send these credentials, and reports must not contain them. A URL with a host
    // accepts both changes.
    let _ = (target.set_username(""), target.set_password(None));
    matches!(target.scheme(), "http" | "https").then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_after_a_redirect() {
        let next = |status, method: Method| keeps_method(status, &method);
        assert!(next(307, Method::POST) && next(308, Method::PUT));
        assert!(!next(301, Method::POST) && !next(302, Method::POST) && !next(303, Method::PUT));
        assert!(next(301, Method::PUT) && next(303, Method::HEAD) && next(302, Method::GET));
    }

    #[tokio::test]
    async fn users_share_the_servers_of_redirects() {
        let servers = RedirectServers::default();
        let options = ClientOptions::default();
        let local = |port: usize| format!("http://127.0.0.1:{port}");
        let first = servers.endpoint(&local(1), &options).await.unwrap();
        let again = servers.endpoint(&local(1), &options).await.unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        let failed = servers.endpoint("ftp://127.0.0.1", &options).await;
        assert!(failed.unwrap_err().contains("http://"));
        for port in 2..MOST_SERVERS {
            assert!(servers.endpoint(&local(port), &options).await.is_ok());
        }
        let surplus = servers.endpoint(&local(MOST_SERVERS), &options).await;
        assert_eq!(surplus.unwrap_err(), "more than 256 other servers");
        assert!(servers.endpoint(&local(1), &options).await.is_ok());
    }
}
