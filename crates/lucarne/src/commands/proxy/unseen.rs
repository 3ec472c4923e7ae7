//! Stand-in for the live view in a build without the feature `tui`.

use std::net::SocketAddr;

use lucarne_proxy::Proxy;

pub(super) const BUILT: bool = false;

pub(super) struct Screen;

impl Screen {
    pub(super) fn start(
        _proxy: Proxy,
        _addresses: &[SocketAddr],
        _admin: Option<SocketAddr>,
    ) -> Self {
        Screen
    }
}

pub(super) fn quit(_screen: &Option<Screen>) -> impl Future<Output = ()> + use<> {
    std::future::pending()
}
