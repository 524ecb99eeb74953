package redfish

import "net/http"

// route is one resource or action.
type route struct {
	method, path string // the path is below the service root
	handler      handler
}

// mux returns the handlers of the routes. All BMCs of a shape share it. It is made at the first
// call.
func (s *shape) mux() *http.ServeMux {
	s.served.once.Do(func() {
		s.served.mux = http.NewServeMux()
		for _, r := range s.routes() {
			s.served.mux.Handle(r.method+" "+root+r.path, r.handler)
		}
		s.served.mux.Handle("GET /redfish", handler{answer: (*Service).versions, public: true})
	})
	return s.served.mux
}

// routes lists the routes of a vendor.
func (s *shape) routes() []route {
	system, manager, chassis, bios := s.systemPath(), s.managerPath(), s.chassisPath(), s.biosPath()
	all := []route{
		{"GET", "", handler{answer: (*Service).serviceRoot, public: true}},
		{"GET", "/SessionService", handler{answer: (*Service).sessionService}},
		{"GET", "/SessionService/Sessions", handler{answer: (*Service).listSessions}},
		{"POST", "/SessionService/Sessions", handler{answer: (*Service).createSession, public: true}},
		{"GET", "/SessionService/Sessions/{session}", handler{answer: (*Service).showSession}},
		{"DELETE", "/SessionService/Sessions/{session}", handler{answer: (*Service).deleteSession}},

		{"GET", "/Systems", listAll("/Systems", "ComputerSystemCollection.ComputerSystemCollection", (*shape).systemPath)},
		{"GET", system, handler{answer: (*Service).showSystem}},
		{"PATCH", system, handler{answer: (*Service).changeBoot}},
		{"POST", system + "/Actions/ComputerSystem.Reset", handler{answer: (*Service).reset}},
		{"GET", system + "/Processors", handler{answer: (*Service).listProcessors}},
		{"GET", system + "/Processors/{id}", handler{answer: (*Service).showProcessor}},
		{"GET", system + "/EthernetInterfaces", handler{answer: (*Service).listPorts}},
		{"GET", system + "/EthernetInterfaces/{id}", handler{answer: (*Service).showPort}},
		{"GET", system + "/Storage", list(system+"/Storage", "StorageCollection.StorageCollection", s.storagePath())},
		{"GET", s.storagePath(), handler{answer: (*Service).showStorage}},
		{"GET", s.storagePath() + "/Drives/{id}", handler{answer: (*Service).showDrive}},
		{"GET", s.volumesPath(), handler{answer: (*Service).listVolumes}},
		{"POST", s.volumesPath(), handler{answer: (*Service).createVolume}},
		{"GET", s.volumesPath() + "/{id}", handler{answer: (*Service).showVolume}},
		{"DELETE", s.volumesPath() + "/{id}", handler{answer: (*Service).deleteVolume}},

		{"GET", bios, handler{answer: (*Service).showBIOS}},
		{"GET", bios + "/" + s.settings, handler{answer: (*Service).showPendingBIOS}},
		{"PATCH", bios + "/" + s.settings, handler{answer: (*Service).changeBIOS}},
		{"POST", bios + "/Actions/Bios.ResetBios", handler{answer: (*Service).resetBIOS}},
		{"GET", system + "/SecureBoot", handler{answer: (*Service).showSecureBoot}},
		{"PATCH", system + "/SecureBoot", handler{answer: (*Service).changeSecureBoot}},
		{"POST", system + "/SecureBoot/Actions/SecureBoot.ResetKeys", handler{answer: (*Service).resetKeys}},

		{"GET", "/Managers", listAll("/Managers", "ManagerCollection.ManagerCollection", (*shape).managerPath)},
		{"GET", manager, handler{answer: (*Service).showManager}},
		{"GET", manager + "/EthernetInterfaces", list(manager+"/EthernetInterfaces", "EthernetInterfaceCollection.EthernetInterfaceCollection", manager+"/EthernetInterfaces/1")},
		{"GET", manager + "/EthernetInterfaces/1", handler{answer: (*Service).showManagerPort}},

		{"GET", "/Chassis", listAll("/Chassis", "ChassisCollection.ChassisCollection", (*shape).chassisPath)},
		{"GET", chassis, handler{answer: (*Service).showChassis}},
		{"GET", chassis + "/NetworkAdapters", handler{answer: (*Service).listAdapters}},
		{"GET", chassis + "/NetworkAdapters/{id}", handler{answer: (*Service).showAdapter}},

		{"GET", "/UpdateService", handler{answer: (*Service).updateService}},
		{"GET", "/UpdateService/FirmwareInventory", handler{answer: (*Service).listFirmware}},
		{"GET", "/UpdateService/FirmwareInventory/{id}", handler{answer: (*Service).showFirmware}},
		{"POST", "/UpdateService/Actions/UpdateService.SimpleUpdate", handler{answer: (*Service).simpleUpdate}},

		{"GET", "/EventService", handler{answer: (*Service).eventService}},
		{"GET", "/EventService/Subscriptions", handler{answer: (*Service).listSubscriptions}},
		{"POST", "/EventService/Subscriptions", handler{answer: (*Service).createSubscription}},
		{"GET", "/EventService/Subscriptions/{id}", handler{answer: (*Service).showSubscription}},
		{"DELETE", "/EventService/Subscriptions/{id}", handler{answer: (*Service).deleteSubscription}},

		{"GET", "/TaskService", handler{answer: (*Service).taskService}},
		{"GET", "/TaskService/Tasks", handler{answer: (*Service).listTasks}},
		{"GET", "/TaskService/Tasks/{id}", handler{answer: (*Service).showTask}},
		{"GET", "/TaskService/TaskMonitors/{id}", handler{answer: (*Service).showMonitor}},

		{"GET", "/Registries", list("/Registries", "MessageRegistryFileCollection.MessageRegistryFileCollection", "/Registries/"+s.attributeRegistry)},
		{"GET", "/Registries/" + s.attributeRegistry, handler{answer: (*Service).registryFile}},
		{"GET", s.registryFile, handler{answer: (*Service).registry}},
	}
	for _, media := range s.media {
		all = append(all, media.routes()...)
	}
	return append(all, s.more...)
}

// list returns a handler that shows a collection with fixed members.
func list(path, kind string, members ...string) handler {
	return handler{answer: func(s *Service, _ *request) answer {
		return resource(s.shape.collection(path, kind, "Collection", members))
	}}
}
