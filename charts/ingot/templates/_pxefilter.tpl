{{/* The containers beside the engine that answer machines which boot from the network. */}}
{{- define "ingot.pxeFilter" -}}
{{- if .Values.pxeFilter.enabled }}
- name: pxe-filter
  {{- include "ingot.image" . | nindent 2 }}
  args:
  - pxe-filter
  - --config=/etc/ingot/engine/engine.yaml
  - --data=/var/lib/ingot/engine
  - --dhcp-hostsdir=/var/lib/ingot-dnsmasq/hosts
  {{- with .Values.pxeFilter.serve }}
  - --serve={{ join "," . }}
  {{- end }}
  # The network is that of the Kubernetes node, so only the kubelet is to reach this.
  - --health-addr=127.0.0.1:6388
  {{- with .Values.engine.environmentSecret }}
  envFrom:
  - secretRef:
      name: {{ . }}
  {{- end }}
  # Not a readiness probe: the pod is the engine's, which is to be reached while the filter fails.
  livenessProbe:
    httpGet:
      host: 127.0.0.1
      port: 6388
      path: /healthz
  {{- include "ingot.containerSecurity" . | nindent 2 }}
  volumeMounts:
  - name: data
    mountPath: /var/lib/ingot
  - name: hosts
    mountPath: /var/lib/ingot-dnsmasq/hosts
  - name: config
    mountPath: /etc/ingot/engine
    readOnly: true
- name: dnsmasq
  image: {{ required "pxeFilter.dnsmasq.image: want an image of dnsmasq" .Values.pxeFilter.dnsmasq.image | quote }}
  args:
  - --keep-in-foreground
  - --log-facility=-
  - --conf-file=/etc/ingot-dnsmasq/dnsmasq.conf
  - --dhcp-hostsdir=/var/lib/ingot-dnsmasq/hosts
  # The folder is empty until the filter has filled it, and nobody is to be answered before.
  - --dhcp-ignore=tag:!known
  - --dhcp-leasefile=/var/lib/ingot-dnsmasq/leases/dnsmasq.leases
  securityContext:
    allowPrivilegeEscalation: false
    runAsUser: 0
    capabilities:
      drop:
      - ALL
      add:
      - NET_ADMIN
      - NET_BIND_SERVICE
      - NET_RAW
      - SETGID
      - SETUID
  volumeMounts:
  - name: hosts
    mountPath: /var/lib/ingot-dnsmasq/hosts
    readOnly: true
  # Leases outlive the pod: a ramdisk that asks dnsmasq for a lease which it does not know loses its address.
  - name: data
    subPath: dnsmasq
    mountPath: /var/lib/ingot-dnsmasq/leases
  - name: dnsmasq
    mountPath: /etc/ingot-dnsmasq
    readOnly: true
{{- end }}
{{- end }}
