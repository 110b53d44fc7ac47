"""The findings of sslyze about a listener, and which of them are faults. The module is imported
only where sslyze is installed."""

from sslyze import (
    CertificateInfoExtraArgument,
    ClientAuthenticationCredentials,
    ScanCommandAttemptStatusEnum,
    ScanCommandsExtraArguments,
    Scanner,
    ServerNetworkConfiguration,
    ServerNetworkLocation,
    ServerScanRequest,
    ServerScanStatusEnum,
)
from sslyze.mozilla_tls_profile.tls_config_checker import (
    SCAN_COMMANDS_NEEDED_BY_MOZILLA_CHECKER,
    MozillaTlsConfiguration,
    ServerNotCompliantWithTlsConfiguration,
    TlsConfigurationEnum,
    check_server_against_tls_configuration,
)

CLIENT_AUTH = {"none": "DISABLED", "requested": "OPTIONAL", "required": "REQUIRED"}
COMMANDS = SCAN_COMMANDS_NEEDED_BY_MOZILLA_CHECKER
# Features of TLS 1.2. With TLS 1.3 only, sslyze reports them as missing, although TLS 1.3 always
# has them.
OF_OLDER = {"tls_vulnerability_renegotiation", "tls_vulnerability_extended_master_secret"}


def findings(listener, port, files, shows_certificate):
    result = _scan(port, files, shows_certificate)
    if result.scan_status != ServerScanStatusEnum.COMPLETED:
        return [f"no scan: {result.connectivity_error_trace or result.scan_status}"]
    if shows_certificate:
        return _all_wrong(result, listener)
    # The requirements of a listener are found without a certificate. If the listener requires a
    # certificate, there is no session without one.
    wrong_auth = [*_wrong_auth(result, listener)]
    is_refused = listener.client_auth == "required"
    return wrong_auth if is_refused else [*wrong_auth, *_all_wrong(result, listener)]


def _all_wrong(result, listener):
    failures = [*_failures(result.scan_result)]
    return failures or [*_refused(result, listener), *_renegotiates(result.scan_result)]


def _scan(port, files, shows_certificate):
    identity = ClientAuthenticationCredentials(files / "client.crt", files / "client.key")
    request = ServerScanRequest(
        ServerNetworkLocation("localhost", port, "127.0.0.1"),
        ServerNetworkConfiguration(
            tls_server_name_indication="localhost",
            tls_client_auth_credentials=identity if shows_certificate else None,
        ),
        scan_commands=COMMANDS,
        scan_commands_extra_arguments=ScanCommandsExtraArguments(
            certificate_info=CertificateInfoExtraArgument(custom_ca_file=files / "ca.pem"),
        ),
    )
    scanner = Scanner()
    scanner.queue_scans([request])
    (result,) = scanner.get_results()
    return result


def _failures(scan):
    """The scans that were not completed."""
    for command in COMMANDS:
        attempt = getattr(scan, command.value)
        if attempt.status != ScanCommandAttemptStatusEnum.COMPLETED:
            trace = "".join(attempt.error_trace.format()) if attempt.error_trace else ""
            yield f"{command.value}: {attempt.status.value} {trace}"


def _refused(result, listener):
    """The deviations from Mozilla's profile, and vulnerabilities."""
    profile = MozillaTlsConfiguration.get(TlsConfigurationEnum(listener.profile))
    try:
        check_server_against_tls_configuration(result, profile)
    except ServerNotCompliantWithTlsConfiguration as refused:
        old = OF_OLDER if profile.tls_versions == {"TLSv1.3"} else set()
        for what, why in refused.issues.items():
            if what not in old:
                yield f"{what}: {why}"


def _wrong_auth(result, listener):
    found = result.connectivity_result.client_auth_requirement.name
    if found != CLIENT_AUTH[listener.client_auth]:
        yield f"client certificates: {found}, and the listener has {listener.client_auth}"


def _renegotiates(scan):
    if scan.session_renegotiation.result.is_vulnerable_to_client_renegotiation_dos:
        yield "clients may renegotiate"
