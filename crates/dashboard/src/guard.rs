//! Who may ask, and who may change something.
//!
//! On this machine alone nobody needs a token, but a page of somebody else's must not reach us through the browser: requests must name a host of ours, and
//! what changes something must come from our own page or from no page at all.

use crate::failure::Failure;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// Who may do what.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// What whoever asks must know; nobody needs one where it is absent.
    pub token: Option<String>,
    /// Whether anything may be changed.
    pub may_change: bool,
    /// Hosts under which it is reached, without ports; any where the list is empty.
    pub hosts: Vec<String>,
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Without its port.
fn host_of(written: &str) -> &str {
    match written.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|letter| letter.is_ascii_digit()) => host,
        _ => written,
    }
}

/// As long for a wrong text as for a right one.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len()
        && one.bytes().zip(other.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other)) == 0
}

/// Where the token stands when a request comes through an API server's proxy, which keeps `Authorization` for itself.
const TOKEN_HEADER: &str = "x-carve-token";

impl Access {
    /// For an address: by any name where a token is needed; on this machine alone only by its own names, whatever a name server says.
    pub fn at(address: IpAddr, token: Option<String>, may_change: bool) -> Self {
        let own = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        let names = ["localhost", "127.0.0.1", "[::1]", &own];
        let hosts = if token.is_some() { Vec::new() } else { names.map(str::to_owned).to_vec() };
        Access { token, may_change, hosts }
    }

    fn knows_host(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let host = host_of(text(headers, header::HOST));
        if self.hosts.is_empty() || self.hosts.iter().any(|known| known == host) {
            return Ok(());
        }
        let message = format!("this is not reached as '{host}'");
        Err(Failure::new(
            StatusCode::FORBIDDEN,
            message,
            "use the address that carve up printed, or localhost",
        ))
    }

    fn knows_token(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let Some(token) = &self.token else { return Ok(()) };
        let given = text(headers, header::AUTHORIZATION).strip_prefix("Bearer ").unwrap_or_default();
        if same(given, token) || same(text(headers, HeaderName::from_static(TOKEN_HEADER)), token) {
            return Ok(());
        }
        let hint = "send it as Authorization: Bearer TOKEN, or as X-Carve-Token through a proxy; it was printed when carve was started, is in the file of --token-file, or in the cluster's Secret carve-dashboard";
        Err(Failure::new(StatusCode::UNAUTHORIZED, "a token is needed", hint))
    }

    /// A browser says from which page a request comes.
    fn is_own_page(headers: &HeaderMap) -> bool {
        let origin = text(headers, header::ORIGIN);
        origin.is_empty()
            || origin.split_once("://").is_some_and(|(_, host)| host == text(headers, header::HOST))
    }

    fn allows(&self, request: &Request) -> Result<(), Failure> {
        let headers = request.headers();
        self.knows_host(headers)?;
        self.knows_token(headers)?;
        // What only looks is asked with a body, because questions may be long.
        let looks = matches!(*request.method(), Method::GET | Method::HEAD)
            || request.uri().path().ends_with("/what-if");
        if looks {
            return Ok(());
        }
        if !Self::is_own_page(headers) {
            let message = "another page may not change anything here";
            return Err(Failure::new(StatusCode::FORBIDDEN, message, "use the page at this address"));
        }
        if !self.may_change {
            let hint = "start carve up with --allow-changes, carve controller with --dashboard-allow-changes, or use carve apply, scale and delete";
            return Err(Failure::new(StatusCode::FORBIDDEN, "nothing may be changed here", hint));
        }
        Ok(())
    }
}

/// In front of the JSON.
pub(crate) async fn api(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match access.allows(&request) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

/// In front of the page itself, which holds no secrets and asks for the token.
pub(crate) async fn page(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    match access.knows_host(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(failure) => failure.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::Access;
    use axum::body::Body;
    use axum::http::Request;

    fn asked(access: &Access, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        access
            .allows(&request.body(Body::empty()).expect("a request"))
            .map_or_else(|failure| failure.code, |()| 200)
    }

    #[test]
    fn whoever_may_not_is_sent_away() {
        let here = ("host", "localhost:7070");
        let local = Access { hosts: vec!["localhost".to_owned(), "[::1]".to_owned()], ..Access::default() };
        assert_eq!(asked(&local, "GET", "/api/v1/picture", &[here]), 200);
        assert_eq!(asked(&local, "GET", "/api/v1/picture", &[("host", "[::1]:7070")]), 200);
        assert_eq!(
            asked(&local, "GET", "/api/v1/picture", &[("host", "evil.example")]),
            403,
            "a name that leads here"
        );
        assert_eq!(asked(&local, "POST", "/api/v1/what-if", &[here]), 200);
        assert_eq!(asked(&local, "POST", "/api/v1/apply", &[here]), 403, "read-only");
        let open = Access { may_change: true, ..local.clone() };
        assert_eq!(asked(&open, "POST", "/api/v1/apply", &[here]), 200);
        assert_eq!(asked(&open, "POST", "/api/v1/apply", &[here, ("origin", "http://localhost:7070")]), 200);
        assert_eq!(asked(&open, "POST", "/api/v1/apply", &[here, ("origin", "https://evil.example")]), 403);
        let secret = Access { token: Some("secret".to_owned()), ..local };
        assert_eq!(asked(&secret, "GET", "/api/v1/picture", &[here]), 401);
        assert_eq!(
            asked(&secret, "GET", "/api/v1/picture", &[here, ("authorization", "Bearer wrong!")]),
            401
        );
        assert_eq!(
            asked(&secret, "GET", "/api/v1/picture", &[here, ("authorization", "Bearer secret")]),
            200
        );
        assert_eq!(asked(&secret, "GET", "/api/v1/picture", &[here, ("x-carve-token", "secret")]), 200);
        assert_eq!(asked(&secret, "GET", "/api/v1/picture", &[here, ("x-carve-token", "")]), 401);
    }

    #[test]
    fn a_token_is_worth_any_name_and_without_one_only_own_names_count() {
        let local = Access::at("127.0.0.7".parse().expect("an address"), None, false);
        assert_eq!(local.hosts, ["localhost", "127.0.0.1", "[::1]", "127.0.0.7"]);
        let open = Access::at("0.0.0.0".parse().expect("an address"), Some("secret".to_owned()), true);
        assert!(open.hosts.is_empty() && open.may_change);
    }
}
